// Holds e4m3fn_decode against the reference, for all 256 codes.
//
//     vvp decode_tb +table=e4m3fn.mem
//
// The last line says how many cases there were and how many differ.

`timescale 1ns / 1ps

module decode_tb;
    reg  [7:0]  code;
    wire [31:0] binary32;
    reg  [31:0] want [0:255];

    reg [8*1024-1:0] name;
    integer index, differ;

    e4m3fn_decode dut (.code(code), .binary32(binary32));

    initial begin
        if (!$value$plusargs("table=%s", name)) begin
            $display("usage: vvp decode_tb +table=FILE");
            $finish;
        end else begin
            $readmemh(name, want);
            differ = 0;
            for (index = 0; index < 256; index = index + 1) begin
                code = index;
                #1;
                // Unlike !=, !== also sees an x, be it of the device or of a missing line.
                if (binary32 !== want[index]) begin
                    differ = differ + 1;
                    $display("code %h: got %h, want %h", code, binary32, want[index]);
                end
            end
            $display("256 cases, %0d differ", differ);
            $finish;
        end
    end
endmodule
