"""The command that writes vectors: of operations, of units, and what they cover."""

import json
import pathlib

import pytest

from tests.command import lowprec
from tests.support import pairs


def run(*words):
    return lowprec("vectors", *words)


UNIT = """
operands = "e2m1fn"
output = "binary32"
accumulator = { step = 4, fraction_bits = 24, result = ["binary32", "toward_zero"] }
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pathlib.Path("mine.toml").write_text(UNIT)


#: Units, what their header says, and names of their columns.
UNITS = """
dot mine.toml | dot e2m1fn e2m1fn, addend binary32, to binary32, K = 4, by mine | x3,y0
dot fp32_fma binary16 e5m2 --length 2 | dot binary16 e5m2, addend binary32 | x0,x1,y0,y1,addend,r
matmul mine.toml --size 2,1,4 | M = 2, N = 1, K = 4, by mine | x7,y0,y1,y2,y3,addend0,addend1,r
block bfloat16 mxfp4 --rule rceil | in blocks of 32, scale by rceil | x31,scale,element0
block binary32 nvfp4 | scale by divide | x15,tensorscale,scale,element0
block mxfp4 --profile torchao_even
block nvfp4 binary16 | block nvfp4 to binary16 | tensorscale,scale,element0
block binary32 mxfp8_e5m2 --rounding toward_zero | elements: toward_zero, saturation finite | x31,scale
compare e3m2fn --flags | compare e3m2fn, IEEE 754 relations | x,y,less,equal,greater,unordered,q
cast e4m3fn e5m2 | convert e4m3fn to e5m2 | operand,result
add e5m2 e5m2 e5m2 --subnormals flush_both --flags | subnormals flush_both | operand2,result,flags
convert binary32 e4m3fn --profile ocp_sat | saturation finite | operand,result
convert binary32 e5m2 --rounding stochastic(4) | stochastic(4, A) | operand,random,result
"""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        # Kernels of dot products are compiled for these alone.
        pytest.param(*row, marks=[pytest.mark.apart] * row[0].startswith(("dot", "matmul")))
        for row in pairs(UNITS)
    ],
)
def test_every_unit_has_vectors(words, said):
    """Print a header that names it, and a column for each code."""
    said, _, names = said.partition(" | ")
    result = run(*words.split(), "--as", "csv", "--samples", 32)
    if not said:
        assert (result.exit_code, "block takes FORMAT BLOCK_FORMAT, not mxfp4" in result.output) == (2, True)
        return
    lines = result.output.splitlines()
    assert result.exit_code == 0, result.output
    assert said in "\n".join(line for line in lines if line[0] == "#")
    assert names in next(line for line in lines if line[0] != "#")
    assert f"lowprec vectors {words.split(' --')[0]}" in lines[0]


def test_the_command_in_the_header_makes_the_same_file():
    """Options that matter are in it."""
    words = "block bfloat16 mxfp4 --rule even --rounding to_odd --samples 16 --seed 3".split()
    first = run(*words)
    again = first.output.splitlines()[0].partition(": lowprec vectors ")[2].split()
    assert sorted(again) == sorted(words)
    assert run(*again).output.splitlines()[1:] == first.output.splitlines()[1:]


@pytest.mark.parametrize(
    "words",
    [
        *(
            pytest.param(words, marks=pytest.mark.apart)
            for words in (
                "dot fp32_fma binary16 e5m2 --length 4",
                "dot mine.toml",
                "matmul mine.toml --size 1,2,4",
            )
        ),
        "block bfloat16 mxfp4",
        "compare e2m1fn",
        "add e2m1fn e2m1fn e2m1fn",
    ],
)
def test_coverage_lists_points_with_their_vectors(words):
    """As text, lanes together; as csv and jsonl each by itself."""
    text = run(*words.split(), "--coverage")
    assert text.exit_code == 0, text.output
    head, *rows = text.output.splitlines()
    assert head.split() == ["group", "point", "vectors"]
    assert len(rows) > 10
    points = [
        json.loads(line) for line in run(*words.split(), "--coverage", "--as", "jsonl").output.splitlines()
    ]
    lines = run(*words.split(), "--coverage", "--as", "csv").output.splitlines()
    assert len(lines) == len(points) + 1
    assert [str(point["vectors"]) for point in points] == [line.rpartition(",")[2] for line in lines[1:]]
    if "lanes" in text.output:
        assert {point["lane"] for point in points} >= {None, 0, 3}


REFUSED = """
dot nothing | unknown accumulation 'nothing'
dot fp32_fma | fp32_fma takes operands of any format; name those of x and y
dot fp32_fma e4m3fn | dot takes ACCUMULATION [FORMAT FORMAT]; name both operands' formats, or none
dot mine.toml e4m3fn e4m3fn | mine takes operands in e2m1fn and e2m1fn; leave the formats out
dot mine.toml --length 0 | 0 lanes are too many for vectors, or none; give a length of 1 to 4,096
dot blackwell_tcgen05_e2m1fn_binary32_ue4m3_4 --length 24 | length 24 holds no whole blocks of 16
dot mine.toml --flags | no standard says which exceptions mine raises: it adds several products at once
matmul mine.toml --size 2,2,4 --flags | says which exceptions a product of matrices raises; leave it out
block bfloat16 mxfp4 --flags | says which exceptions a block converter raises; leave it out
dot mine.toml --rounding toward_zero | --rounding says nothing about dot; leave it out
dot mine.toml --size 1,2,3 | --size says nothing about dot; leave it out
matmul mine.toml | matmul needs --size M,N,K, such as 16,8,32, not None
matmul mine.toml --size 0,2,3 | matmul needs --size M,N,K, such as 16,8,32, not '0,2,3'
block binary32 e4m3fn | block takes FORMAT BLOCK_FORMAT, or them the other way round, not binary32 e4m3fn
block binary32 fp8_block_128x128 | blocks of 128 x 128 are too large for vectors
block mxfp4 e4m3fn | blocks are decoded to binary32, binary16, bfloat16, not to 'e4m3fn'
compare e4m3fn e5m2 | compare takes FORMAT, not e4m3fn e5m2
compare e4m3fn --rule floor | --rule says nothing about compare; leave it out
add e4m3fn e4m3fn e4m3fn --rule floor | --rule says nothing about add; leave it out
convert binary32 e4m3fn --profile ocp_sat --rounding to_odd | all say how to convert; give one of them
dot mine.toml --coverage --as mem | --coverage is text, csv or jsonl, not mem
dot mine.toml --coverage --operands | --operands prints text; leave --as and --coverage out
"""


@pytest.mark.parametrize(("words", "message"), pairs(REFUSED))
def test_what_cannot_be_is_refused(words, message):
    """With what was asked and the way out."""
    result = run(*words.split())
    assert (result.exit_code, message in " ".join(result.output.split())) == (2, True), result.output
