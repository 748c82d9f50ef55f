// Holds mx_convert against test vectors, one word a block: the values, the scale and the elements.
//
//     vvp mx_tb +vectors=block.mem [+results=FILE]
//
// The file gets a line for each block, with what the unit gave, for `lowprec compare`. The last line that is
// printed says how many blocks there were and how many differ.

`timescale 1ns / 1ps

module mx_tb;
    parameter FRACTION   = 23;      // these are the unit's, see mx_convert.v
    parameter EXPONENT   = 4;
    parameter TRAILING   = 3;
    parameter LARGEST    = 126;
    parameter EMAX       = 8;
    parameter STORED     = 0;
    parameter CEILING    = 0;
    parameter DROPPED    = -1;
    parameter UNSEEN     = -1;
    parameter ROUNDING   = 0;
    parameter SATURATE   = 1;
    parameter SPECIALS   = 1;
    parameter FLUSHED    = 0;
    parameter ZERO_SCALE = 0;
    parameter ZERO_SIGNS = 1;
    parameter DEPTH      = 4096;    // of the memory: at least as many as there are vectors

    localparam LANES = 32;
    localparam IN    = (FRACTION + 9) * LANES;
    localparam OUT   = (EXPONENT + TRAILING + 1) * LANES;

    reg  [IN+8+OUT-1:0] vectors [0:DEPTH-1];
    reg                 clock;
    reg  [IN-1:0]       x;
    reg  [OUT+7:0]      want;
    wire                out_valid;
    wire [7:0]          scale;
    wire [OUT-1:0]      elements;

    reg [8*1024-1:0] name, out, line;
    reg [IN+8+OUT-1:0] word;
    integer file, results, read, cases, index, differ;

    mx_convert #(
        .LANES(LANES), .FRACTION(FRACTION), .EXPONENT(EXPONENT), .TRAILING(TRAILING), .LARGEST(LARGEST),
        .EMAX(EMAX), .STORED(STORED), .CEILING(CEILING), .DROPPED(DROPPED), .UNSEEN(UNSEEN),
        .ROUNDING(ROUNDING), .SATURATE(SATURATE), .SPECIALS(SPECIALS), .FLUSHED(FLUSHED),
        .ZERO_SCALE(ZERO_SCALE), .ZERO_SIGNS(ZERO_SIGNS)
    ) dut (
        .clock(clock), .in_valid(1'b1), .x(x), .out_valid(out_valid), .scale(scale), .elements(elements)
    );

    initial begin
        clock = 1'b0;
        cases = 0;
        read = 1;
        differ = 0;
        file = 0;
        results = 0;
        if ($value$plusargs("vectors=%s", name))
            file = $fopen(name, "r");
        else
            $display("usage: vvp mx_tb +vectors=FILE [+results=FILE]");

        // The words are counted first, so that $readmemh can say if it does not find as many. (Verilator
        // leaves a $fgets out whose result nothing reads.)
        if (file != 0) begin
            while (!$feof(file) && read != 0) begin
                if ($fscanf(file, "%h", word) == 1)
                    cases = cases + 1;
                read = $fgets(line, file);
            end
            $fclose(file);
        end

        // A bench that compared nothing, or not everything, must not look like one that passed.
        if (cases == 0)
            $display("nothing was compared: no vectors");
        else if (cases > DEPTH)
            $display("nothing was compared: %0d vectors, set DEPTH to as many", cases);
        else begin
            $readmemh(name, vectors, 0, cases - 1);
            if ($value$plusargs("results=%s", out))
                results = $fopen(out, "w");
            for (index = 0; index < cases; index = index + 1) begin
                {x, want} = vectors[index];
                #1 clock = 1'b1;
                #1 clock = 1'b0;
                // Unlike !=, !== also sees an x, be it of the unit or of a damaged vector.
                if ({out_valid, scale, elements} !== {1'b1, want}) begin
                    differ = differ + 1;
                    if (results == 0)
                        $display("block %0d: got %h %h, want %h %h", index, scale, elements,
                                 want[OUT+7:OUT], want[OUT-1:0]);
                end
                if (results != 0)
                    $fdisplay(results, "%h %h %h", x, scale, elements);
            end
            if (results != 0)
                $fclose(results);
            $display("%0d cases, %0d differ", cases, differ);
        end
        $finish;
    end
endmodule
