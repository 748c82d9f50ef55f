// A block of binary32 or bfloat16 values to MX: an E8M0 scale and a code for each value, in one clock.
//
//     scale    2^(floor(log2 of the largest magnitude) - EMAX), at least 2^-127          [OCP MX 1.0, 6.3]
//     element  value / scale, to nearest, ties to even; what is too large is the largest number
//
// EMAX is the exponent of the element's largest number. A block with a NaN or an infinity has the scale ff
// (NaN) and elements of code 0; a block of zeros has the scale 00, and zeros of the values' signs.
//
// Lane 0 is in the lowest bits. The defaults are binary32 to MXFP8 (E4M3FN); for bfloat16 to MXFP4 (E2M1FN):
// FRACTION = 7, EXPONENT = 2, TRAILING = 1, EMAX = 2, LARGEST = 7.
//
// Bugs to plant: any other EMAX, and the parameters below it.

`timescale 1ns / 1ps

module mx_convert #(
    parameter LANES      = 32,
    parameter FRACTION   = 23,      // of the values: 23 of binary32, 7 of bfloat16
    parameter EXPONENT   = 4,       // of the elements
    parameter TRAILING   = 3,
    parameter LARGEST    = 126,     // the code of the largest number
    parameter EMAX       = 8,
    parameter STORED     = 0,       // is added to the scale that is written, not to that which divides
    parameter CEILING    = 0,       // 1: the power of two above the largest magnitude, unless it is one
    parameter DROPPED    = -1,      // a lane that is not connected
    parameter UNSEEN     = -1,      // a lane that the largest magnitude leaves out
    parameter ROUNDING   = 0,       // 1: bits are cut off; 2: ties go away from zero
    parameter SATURATE   = 1,       // 0: what is too large becomes the code after the largest number's
    parameter SPECIALS   = 1,       // 0: nothing looks for NaNs and infinities
    parameter FLUSHED    = 0,       // 1: subnormal elements become zeros; 2: subnormal values are zeros
    parameter ZERO_SCALE = 0,       // the scale of a block of zeros
    parameter ZERO_SIGNS = 1        // 0: elements that become zero have no sign
) (
    input  wire                                    clock,
    input  wire                                    in_valid,
    input  wire [(FRACTION+9)*LANES-1:0]           x,
    output reg                                     out_valid,
    output reg  [7:0]                              scale,
    output reg  [(EXPONENT+TRAILING+1)*LANES-1:0]  elements
);
    localparam IN   = FRACTION + 9;
    localparam OUT  = EXPONENT + TRAILING + 1;
    localparam BIAS = (1 << (EXPONENT - 1)) - 1;
    localparam PAD  = TRAILING + 2;             // places that a subnormal element moves to the right at most

    reg [IN-1:0]       value;
    reg [IN-2:0]       largest;
    reg                special;
    reg [7:0]          power;                   // the scale that divides
    reg [7:0]          written;
    reg [OUT*LANES-1:0] codes;

    reg [FRACTION:0]     significand;
    reg [FRACTION+PAD:0] aligned;
    reg [TRAILING:0]     kept;
    reg                  half, sticky, up;
    reg [OUT-2:0]        code;
    integer i, j, field, places, magnitude;

    initial out_valid = 1'b0;

    always @(posedge clock) begin
        // The scale.
        largest = 0;
        special = 1'b0;
        for (i = 0; i < LANES; i = i + 1) begin
            value = i == DROPPED ? {IN{1'b0}} : x[IN*i +: IN];
            if (FLUSHED == 2 && value[IN-2:FRACTION] == 8'd0)
                value[FRACTION-1:0] = 0;
            if (&value[IN-2:FRACTION] && SPECIALS != 0)
                special = 1'b1;
            if (i != UNSEEN && value[IN-2:0] > largest)
                largest = value[IN-2:0];
        end
        field = {24'd0, largest[IN-2:FRACTION]};        // 0 of subnormal numbers, whose scale is 00
        if (CEILING != 0 && field != 0 && |largest[FRACTION-1:0])
            field = field + 1;
        field = field > EMAX ? field - EMAX : 0;
        power = field[7:0];
        field = STORED + (largest == 0 ? ZERO_SCALE : field);
        written = special ? 8'hff : field[7:0];

        // The elements.
        for (i = 0; i < LANES; i = i + 1) begin
            value = i == DROPPED ? {IN{1'b0}} : x[IN*i +: IN];
            if (FLUSHED == 2 && value[IN-2:FRACTION] == 8'd0)
                value[FRACTION-1:0] = 0;

            // The quotient is significand * 2^places, with a point behind the leading bit.
            field = {24'd0, value[IN-2:FRACTION]};
            significand = {field != 0, value[FRACTION-1:0]};
            places = (field != 0 ? field : 1) - {24'd0, power};
            for (j = 0; j < FRACTION; j = j + 1)
                if (!significand[FRACTION]) begin
                    significand = significand << 1;
                    places = places - 1;
                end

            // Below the smallest normal number the step stays the same, and the significand moves right.
            field = places + BIAS;
            aligned = {significand, {PAD{1'b0}}};
            if (field < 1)
                aligned = aligned >> (1 - field > PAD ? PAD : 1 - field);
            {kept, half} = aligned[FRACTION+PAD -: TRAILING+2];
            sticky = |aligned[FRACTION+PAD-TRAILING-2:0];
            up = ROUNDING == 1 ? 1'b0 : ROUNDING == 2 ? half : half & (sticky | kept[0]);

            // The leading bit of `kept` adds one to the exponent field above it, and a carry out of it too.
            magnitude = (field > 1 ? (field - 1) << TRAILING : 0) + {{31-TRAILING{1'b0}}, kept} + {31'd0, up};
            if (FLUSHED == 1 && magnitude < 1 << TRAILING)
                magnitude = 0;
            if (magnitude > LARGEST)
                magnitude = SATURATE != 0 ? LARGEST : LARGEST + 1;
            code = special ? {OUT-1{1'b0}} : magnitude[OUT-2:0];
            codes[OUT*i +: OUT] = {value[IN-1] && !special && (ZERO_SIGNS != 0 || code != 0), code};
        end

        out_valid <= in_valid;
        scale <= written;
        elements <= codes;
    end
endmodule
