// Holds e4m3fn_dot against test vectors, one word a case: x, y, the addend and the sum.
//
//     vvp dot_tb +vectors=dot.mem [+results=FILE]     holds the unit against the vectors
//     vvp dot_tb +operands                            answers lines of operands, as `lowprec identify` asks
//
// With +results the file gets a line for each case, with what the unit gave, for `lowprec compare`. The last
// line that is printed says how many cases there were and how many differ. With +operands the standard input
// has a line for each sum, LANES codes of x, LANES of y and the addend; the sums are printed.

`timescale 1ns / 1ps

module dot_tb;
    parameter FRACTION = 24;        // these are the unit's, see e4m3fn_dot.v
    parameter DROPPED  = -1;
    parameter FLOOR    = 0;
    parameter NEAREST  = 0;
    parameter DEPTH    = 65536;     // of the memory: at least as many as there are vectors

    localparam LANES = 4;
    localparam WIDTH = 16*LANES + 64;

    reg  [WIDTH-1:0]   vectors [0:DEPTH-1];
    reg                clock;
    reg  [8*LANES-1:0] x, y;
    reg  [31:0]        c, want;
    wire               out_valid;
    wire [31:0]        result;

    reg [8*1024-1:0] name, out, line;
    reg [WIDTH-1:0] word;
    reg [31:0] number;
    integer file, results, cases, index, lane, differ, read;

    e4m3fn_dot #(
        .LANES(LANES), .FRACTION(FRACTION), .DROPPED(DROPPED), .FLOOR(FLOOR), .NEAREST(NEAREST)
    ) dut (
        .clock(clock), .in_valid(1'b1), .x(x), .y(y), .c(c), .out_valid(out_valid), .result(result)
    );

    initial begin
        clock = 1'b0;
        if ($test$plusargs("operands"))
            answer;
        else
            compare;
        $finish;
    end

    task step;
        begin
            #1 clock = 1'b1;
            #1 clock = 1'b0;
        end
    endtask

    task answer;
        begin
            read = 1;
            while (read == 1) begin
                for (lane = 0; lane < LANES && read == 1; lane = lane + 1) begin
                    read = $fscanf(32'h8000_0000, "%h", number);    // the standard input
                    x[8*lane +: 8] = number[7:0];
                end
                for (lane = 0; lane < LANES && read == 1; lane = lane + 1) begin
                    read = $fscanf(32'h8000_0000, "%h", number);
                    y[8*lane +: 8] = number[7:0];
                end
                if (read == 1)
                    read = $fscanf(32'h8000_0000, "%h", c);
                if (read == 1) begin
                    step;
                    $display("%h", result);
                end
            end
        end
    endtask

    task compare;
        begin
            cases = 0;
            read = 1;
            differ = 0;
            file = 0;
            results = 0;
            if ($value$plusargs("vectors=%s", name))
                file = $fopen(name, "r");
            else
                $display("usage: vvp dot_tb +vectors=FILE [+results=FILE], or +operands");

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
                    {x, y, c, want} = vectors[index];
                    step;
                    // Unlike !=, !== also sees an x, be it of the unit or of a damaged vector.
                    if ({out_valid, result} !== {1'b1, want}) begin
                        differ = differ + 1;
                        if (results == 0)
                            $display("x %h, y %h, addend %h: got %h, want %h", x, y, c, result, want);
                    end
                    if (results != 0)
                        $fdisplay(results, "%h %h %h %h", x, y, c, result);
                end
                if (results != 0)
                    $fclose(results);
                $display("%0d cases, %0d differ", cases, differ);
            end
        end
    endtask
endmodule
