// binary32 to OCP E4M3FN, combinational: to nearest, ties to even; what overflows, the infinities
// included, becomes the NaN of its sign (in lowprec: saturation none).
//
// TIES_AWAY = 1 plants a bug on purpose: ties go away from zero. It is the commonest mistake in
// such a block and random operands hardly ever hit a tie, so it is what a testbench must be seen
// to catch.

`timescale 1ns / 1ps

module e4m3fn_encode #(
    parameter TIES_AWAY = 0
) (
    input  wire [31:0] binary32,
    output wire [7:0]  code
);
    wire        sign  = binary32[31];
    wire [7:0]  field = binary32[30:23];
    wire [22:0] trailing = binary32[22:0];

    // The significand with its leading bit, which binary32's subnormals lack. They lie so far
    // below the smallest code that their different exponent makes no difference.
    wire [23:0] significand = {field != 8'd0, trailing};

    // Below 2^-6, where field is 121, the step of E4M3FN stays the same, and the significand moves
    // right instead. Five places are enough for everything below half of the smallest code to
    // lose its place for rounding, and no bit of the 29 is lost.
    wire [7:0] below = field < 8'd121 ? 8'd121 - field : 8'd0;
    wire [2:0] shift = below > 8'd5 ? 3'd5 : below[2:0];
    wire [28:0] aligned = {significand, 5'd0} >> shift;

    wire [3:0] kept     = aligned[28:25];
    wire       half     = aligned[24];
    wire       sticky   = |aligned[23:0];
    wire       farther  = half & (sticky | kept[0] | (TIES_AWAY != 0));

    // The leading bit of `kept` adds one to the exponent field above it, which is why normal
    // numbers count from 121 and not from 120; a carry out of `kept` adds one more, and that is
    // the next binade. Eleven bits hold the largest, 133 * 8 + 16.
    wire [7:0]  binade    = field > 8'd121 ? field - 8'd121 : 8'd0;
    wire [10:0] magnitude = {binade, 3'd0} + {7'd0, kept} + {10'd0, farther};

    // Infinities and NaNs have the largest field and so come out too large by themselves.
    wire too_large = magnitude > 11'h7e;

    assign code = {sign, too_large ? 7'h7f : magnitude[6:0]};
endmodule
