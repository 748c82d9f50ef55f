// OCP E4M3FN code to binary32, combinational.
//
// Every E4M3FN number is a binary32 number, so that nothing is rounded. The only work is to
// normalise the subnormals, which binary32 has room to write as normal numbers.

`timescale 1ns / 1ps

module e4m3fn_decode (
    input  wire [7:0]  code,
    output wire [31:0] binary32
);
    wire       sign     = code[7];
    wire [3:0] field    = code[6:3];
    wire [2:0] trailing = code[2:0];

    wire is_nan       = &code[6:0];  // There is one NaN of each sign and no infinity.
    wire is_zero      = ~|code[6:0];
    wire is_subnormal = field == 4'd0;

    // A subnormal is trailing * 2^-9. The shift puts its leading one just above the three bits,
    // where binary32 does not store it.
    wire [1:0] shift = trailing[2] ? 2'd1 : trailing[1] ? 2'd2 : 2'd3;
    wire [2:0] normalised = trailing << shift;

    // The biases differ by 127 - 7 = 120; a subnormal counts from field 1, less its shift.
    wire [7:0] exponent = is_subnormal ? 8'd121 - {6'd0, shift} : 8'd120 + {4'd0, field};
    wire [2:0] fraction = is_subnormal ? normalised : trailing;

    assign binary32 = is_nan  ? {sign, 31'h7fc00000}  // the quiet NaN without payload
                    : is_zero ? {sign, 31'd0}
                    :           {sign, exponent, fraction, 20'd0};
endmodule
