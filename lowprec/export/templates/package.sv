// $provenance
// $format: the value of every code as $kind bits; encode binary32 under $projection.

// A file may have another name than its package, a package has no delays, and constants may be unused.
// verilator lint_off DECLFILENAME
// verilator lint_off TIMESCALEMOD
// verilator lint_off UNUSED
package ${name}_pkg;

    localparam int WIDTH = $width;
$fields
    function automatic [$value_top:0] decode(input [$code_top:0] code);
        case (code)
$cases
            default: decode = {$bits{1'bx}};
        endcase
    endfunction

    function automatic [$code_top:0] encode(input [31:0] operand);
        reg [30:0] magnitude;
        magnitude = operand[30:0];
        if (magnitude > 31'h7f800000)
            encode = operand[31] ? $width'h$negative_nan : $width'h$nan;
        else if (!operand[31]) begin
$positive
        end else begin
$negative
        end
    endfunction

    // The C header's encode in every mode, where the simulator has DPI: compile it with -DLOWPREC_DPI.
`ifdef LOWPREC_DPI
$modes
    import "DPI-C" function int unsigned ${name}_dpi(
        input int unsigned operand, input int rounding, input int saturation);
`endif

endpackage
// verilator lint_on UNUSED
// verilator lint_on TIMESCALEMOD
// verilator lint_on DECLFILENAME
