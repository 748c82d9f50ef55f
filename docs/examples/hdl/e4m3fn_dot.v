// A dot product of E4M3FN vectors, added to a binary32 number: a step of a tensor core, in one clock.
//
//     result = c + x[0] * y[0] + ... + x[LANES-1] * y[LANES-1]
//
// Products are exact. All terms are aligned to the largest exponent among those that are not zero, and
// keep FRACTION bits behind its point; the others are cut off, toward zero. Their sum is exact, and is
// cut off to binary32. A product's exponent is the sum of those of its factors; subnormal numbers have
// the exponent of the smallest normal one. In lowprec's terms: Window(step=LANES, fraction_bits=FRACTION).
//
// Lane 0 is in the lowest bits. A sum that is zero is +0; NaN is 7fffffff.
//
// Bugs to plant: FRACTION other than 24; DROPPED, the number of a lane that is left out; FLOOR = 1, which cuts
// terms downwards, as two's complement does; NEAREST = 1, which rounds the sum to nearest, ties away from zero.

`timescale 1ns / 1ps

module e4m3fn_dot #(
    parameter LANES    = 4,
    parameter FRACTION = 24,    // 6 to 25
    parameter DROPPED  = -1,
    parameter FLOOR    = 0,
    parameter NEAREST  = 0
) (
    input  wire               clock,
    input  wire               in_valid,
    input  wire [8*LANES-1:0] x,
    input  wire [8*LANES-1:0] y,
    input  wire [31:0]        c,
    output reg                out_valid,
    output reg  [31:0]        result
);
    localparam TERM = FRACTION + 2;     // bits of an aligned product, which is below 4
    localparam SUM  = TERM + 7;         // with a sign, and room for LANES up to 32 and c

    // The terms: lane by lane, and c as the last.
    reg        negative [0:LANES];
    reg [23:0] significand [0:LANES];   // of products 8 bits
    reg signed [9:0] exponent [0:LANES];

    reg [7:0] p, q;
    reg nan, infinite;
    reg signed [9:0] largest, lowest_bit, shift;
    reg [TERM-1:0] aligned, whole;
    reg signed [SUM-1:0] sum;
    reg [SUM-1:0] magnitude;
    reg [23:0] rounded;
    reg [31:0] next;
    reg minus, any;
    integer i, top;

    initial out_valid = 1'b0;

    // What is shifted or assigned is extended or cut to the width on the left, as Verilog does.
    // verilator lint_off WIDTH
    always @(posedge clock) begin
        nan = &c[30:23] && |c[22:0];
        infinite = &c[30:23] && ~|c[22:0];
        for (i = 0; i < LANES; i = i + 1) begin
            p = i == DROPPED ? 8'd0 : x[8*i +: 8];
            q = i == DROPPED ? 8'd0 : y[8*i +: 8];
            nan = nan | (&p[6:0]) | (&q[6:0]);
            negative[i] = p[7] ^ q[7];
            significand[i] = {|p[6:3], p[2:0]} * {|q[6:3], q[2:0]};
            exponent[i] = (|p[6:3] ? {6'd0, p[6:3]} : 10'd1) + (|q[6:3] ? {6'd0, q[6:3]} : 10'd1) - 10'd14;
        end
        negative[LANES] = c[31];
        significand[LANES] = {|c[30:23], c[22:0]};
        exponent[LANES] = (|c[30:23] ? {2'd0, c[30:23]} : 10'd1) - 10'd127;

        // Alignment.
        any = 1'b0;
        largest = 10'sd0;
        for (i = 0; i <= LANES; i = i + 1)
            if (|significand[i] && (!any || exponent[i] > largest)) begin
                any = 1'b1;
                largest = exponent[i];
            end
        sum = 0;
        for (i = 0; i <= LANES; i = i + 1) begin
            shift = largest - exponent[i];
            if (i < LANES)              // six bits are behind a product's point, 23 behind that of c
                whole = significand[i] << (FRACTION - 6);
            else if (FRACTION >= 23)
                whole = significand[i] << (FRACTION - 23);
            else
                whole = significand[i] >> (23 - FRACTION);
            aligned = |significand[i] && shift < TERM ? whole >> shift : 0;
            if (FLOOR != 0 && negative[i] && |significand[i] && (shift >= TERM || aligned << shift != whole))
                aligned = aligned + 1;
            sum = negative[i] ? sum - $signed({7'd0, aligned}) : sum + $signed({7'd0, aligned});
        end

        // The sum in binary32: its leading bit, and where its last bit lies then.
        minus = sum[SUM-1];
        magnitude = minus ? -sum : sum;
        top = 0;
        for (i = 0; i < SUM; i = i + 1)
            if (magnitude[i])
                top = i;
        lowest_bit = largest - FRACTION + top - 23;
        if (lowest_bit < -10'sd149)
            lowest_bit = -10'sd149;
        shift = lowest_bit - (largest - FRACTION);
        rounded = shift >= 0 ? magnitude >> shift : magnitude << -shift;
        lowest_bit = lowest_bit + 10'sd150;

        if (nan)
            next = 32'h7fffffff;
        else if (infinite)
            next = c;
        else if (magnitude == 0)
            next = 32'd0;
        else if (lowest_bit > 10'sd254)
            next = {minus, 8'hff, 23'd0};
        else begin
            next = {minus, rounded[23] ? lowest_bit[7:0] : 8'd0, rounded[22:0]};
            if (NEAREST != 0 && shift > 0 && magnitude[shift-1])
                next = next + 1;
        end

        out_valid <= in_valid;
        result <= next;
    end
    // verilator lint_on WIDTH
endmodule
