-- $provenance
-- $format: the value of every code as $kind bits; encode binary32 under $projection.

library ieee;
use ieee.std_logic_1164.all;
use ieee.numeric_std.all;

package ${name}_pkg is
    constant CODE_WIDTH : positive := $width;
    subtype code_type is std_logic_vector($code_top downto 0);
    subtype value_type is std_logic_vector($value_top downto 0);
    type table_type is array (0 to $last) of value_type;
    constant VALUES : table_type := (
$table
    );
    function decode(code : code_type) return value_type;
    function encode(operand : std_logic_vector(31 downto 0)) return code_type;
end package;

package body ${name}_pkg is
    function decode(code : code_type) return value_type is
    begin
        return VALUES(to_integer(unsigned(code)));
    end function;

    function encode(operand : std_logic_vector(31 downto 0)) return code_type is
        variable magnitude : unsigned(31 downto 0);
        variable code : code_type;
    begin
        magnitude := unsigned(operand);
        magnitude(31) := '0';
        if magnitude > unsigned'(x"7f800000") then
            if operand(31) = '1' then code := $negative_nan; else code := $nan; end if;
        elsif operand(31) = '0' then
$positive
        else
$negative
        end if;
        return code;
    end function;
end package body;
