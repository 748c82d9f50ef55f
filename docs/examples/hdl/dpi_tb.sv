// Holds e4m3fn_encode against lowprec's own conversion, called as the simulation runs: no file of vectors.
//
//     lowprec table e4m3fn --as sv        the package: a table of values, an encoder, and the import
//     lowprec table e4m3fn --as c         what is imported, compiled with -DLOWPREC_DPI
//
// The last line says how many cases there were and how many differ.

`timescale 1ns / 1ps

module dpi_tb;
    import lowprec_e4m3fn_pkg::*;

    parameter TIES_AWAY = 0;        // 1 plants the bug, see e4m3fn_encode.v

    logic [31:0] binary32;
    wire  [7:0]  code;
    int          cases = 0, differ = 0;

    e4m3fn_encode #(.TIES_AWAY(TIES_AWAY)) dut (.binary32, .code);

    task automatic try_operand(input logic [31:0] operand);
        logic [7:0] want;
        binary32 = operand;
        #1;
        want = 8'(lowprec_e4m3fn_dpi(operand, NEAREST_EVEN, SATURATE_NONE));
        cases++;
        if (code !== want) begin
            differ++;
            $display("operand %h: got %h, want %h", operand, code, want);
        end
    endtask

    initial begin
        logic [31:0] tie;
        // The middle between two neighbouring values, and what is next to it. As binary32 has the same number
        // of values in every binade, the middle of the bits is that of the values.
        for (int sign = 0; sign < 256; sign += 128)
            for (int low = 1; low < 126; low++) begin
                tie = (decode(8'(sign + low)) >> 1) + (decode(8'(sign + low + 1)) >> 1);
                for (int step = -1; step <= 1; step++)
                    try_operand(tie + 32'(step));
            end
        for (int i = 0; i < 100000; i++)
            try_operand($urandom);
        $display("%0d cases, %0d differ", cases, differ);
        $finish;
    end
endmodule
