// Holds e4m3fn_encode against test vectors, one 40-bit word a case: the binary32 operand, then
// the code that it must give.
//
//     vvp encode_tb +vectors=convert.mem
//
// The last line says how many cases there were and how many differ.

`timescale 1ns / 1ps

module encode_tb;
    parameter TIES_AWAY = 0;   // 1 plants the bug, see e4m3fn_encode.v
    parameter DEPTH = 65536;   // of the memory: at least as many as there are vectors

    reg  [39:0] vectors [0:DEPTH-1];
    reg  [31:0] binary32;
    wire [7:0]  code;
    reg  [7:0]  want;

    reg [8*1024-1:0] name, line;
    reg [39:0] word;
    integer file, read, cases, index, differ;

    e4m3fn_encode #(.TIES_AWAY(TIES_AWAY)) dut (.binary32(binary32), .code(code));

    initial begin
        cases = 0;
        read = 1;
        differ = 0;
        file = 0;
        if ($value$plusargs("vectors=%s", name))
            file = $fopen(name, "r");
        else
            $display("usage: vvp encode_tb +vectors=FILE");

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
            for (index = 0; index < cases; index = index + 1) begin
                {binary32, want} = vectors[index];
                #1;
                // Unlike !=, !== also sees an x, be it of the device or of a damaged vector.
                if (code !== want) begin
                    differ = differ + 1;
                    $display("operand %h: got %h, want %h", binary32, code, want);
                end
            end
            $display("%0d cases, %0d differ", cases, differ);
        end
        $finish;
    end
endmodule
