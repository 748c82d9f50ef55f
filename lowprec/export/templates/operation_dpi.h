#ifdef LOWPREC_DPI
/* What SystemVerilog imports, with the flags above bit 32: to be compiled once, as C or as C++. */
#ifdef __cplusplus
extern "C"
#endif
uint64_t ${name}_dpi($dpi);
uint64_t ${name}_dpi($dpi)
{
    uint8_t flags;
    uint64_t code = $name($passed, &flags);

    return (uint64_t)flags << 32 | code;
}
#endif
