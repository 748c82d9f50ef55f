#ifdef LOWPREC_DPI
/* What the SystemVerilog package imports: to be compiled once, as C or as C++. */
#ifdef __cplusplus
extern "C"
#endif
uint32_t ${name}_dpi(uint32_t binary32, int32_t rounding, int32_t saturation);
uint32_t ${name}_dpi(uint32_t binary32, int32_t rounding, int32_t saturation)
{
    return ${name}_encode(binary32, (lowprec_rounding)rounding, (lowprec_saturation)saturation);
}
#endif

#endif
