#include <doctest/doctest.h>

#include <iterator>
#include <string>
#include <string_view>

#include "hlo/groups.h"
#include "hlo/program.h"

namespace shardc::hlo {
namespace {

TEST_CASE("escapes of names are replaced if they encode a text") {
  CHECK(Unescaped(R"(p[\'w\'])") == "p['w']");
  CHECK(Unescaped(R"(p[\'gr\303\266\303\237e\'])") == "p['gr\u00f6\u00dfe']");
  CHECK(Unescaped(R"(a\\303)") == R"(a\303)");
  CHECK(Unescaped(R"(\'\377)") == R"('\377)");
  CHECK(Unescaped(R"(a\47\)") == R"(a\47\)");
}

TEST_CASE("an instruction is split outside of brackets and strings") {
  const auto whole = SplitInstruction(
      R"(  ROOT %s.1 = ((bf16[2]{0:T(8,128)(2,1)}), /*index=1*/f32[4]{0}) )"
      R"(all-gather-start(%x, /*index=1*/f32[2]{0} %y), channel_id=1, )"
      R"(frontend_attributes={a="{{0,1}"}, metadata={op_name="f(/g"})");
  REQUIRE(whole);
  CHECK(whole->root);
  CHECK(whole->name == "s.1");
  CHECK(whole->type == "((bf16[2]{0:T(8,128)(2,1)}), /*index=1*/f32[4]{0})");
  CHECK(whole->opcode == "all-gather-start");
  CHECK(AttributeOf(whole->attributes, "channel_id") == "1");
  CHECK(AttributeOf(whole->attributes, "frontend_attributes") ==
        R"({a="{{0,1}"})");
  CHECK_FALSE(AttributeOf(whole->attributes, "channel"));
  const auto metadata = AttributeOf(whole->attributes, "metadata");
  REQUIRE(metadata);
  CHECK(MemberOf(*metadata, "op_name") == "f(/g");
  std::string_view list = whole->operands, item;
  REQUIRE(NextItem(list, item));
  CHECK(NameOfOperand(item) == "x");
  REQUIRE(NextItem(list, item));
  CHECK(NameOfOperand(item) == "y");
  CHECK_FALSE(NextItem(list, item));
}

TEST_CASE("a line that is no instruction is not split") {
  for (const char* line :
       {"", "}", "  %x", "%x = f32[2]", "%x = f32[2] add(%y", "%x = (f32[2] a(",
        "ENTRY %main (p: f32[2]) -> f32[2] {"}) {
    CAPTURE(line);
    CHECK_FALSE(SplitInstruction(line));
  }
}

TEST_CASE("arrays of a type have their bytes") {
  const auto arrays = ArraysOf(
      "(bf16[8,128]{1,0:T(8,128)(2,1)}, /*index=1*/(u32[]{:S(2)}, s4[3]), "
      "pred[<=8], f8e4m3fn[2], c128[2], token[])");
  REQUIRE(arrays.size() == 7);
  const int64_t bytes[] = {2048, 4, 2, 8, 2, 32, 0};
  for (size_t i = 0; i < arrays.size(); ++i) {
    CHECK(arrays[i].Bytes().value() == bytes[i]);
  }
  CHECK(arrays[0].Text() == "bf16[8,128]");
  CHECK_FALSE(ArraysOf("f32[9223372036854775807,4]")[0].Bytes().Fits());
  CHECK(ArraysOf("/*").empty());
  CHECK(ArraysOf("{").empty());
  CHECK(ArraysOf("f32]x[").empty());
}

TEST_CASE("all forms of replica groups give the same groups") {
  const Groups rows = {{0, 1, 2, 3}, {4, 5, 6, 7}};
  CHECK(ReadGroups("{{0,1,2,3},{4,5,6,7}}, dimensions={0}", 8) == rows);
  CHECK(ReadGroups("[2,4]<=[8]", 8) == rows);
  CHECK(ReadGroups("mesh['axis_0'=2,'axis_1'=4] {'axis_1'}", 8) == rows);
  CHECK(ReadGroups("@mesh<a=2,b=4> {b}", 8) == rows);
  const Groups columns = {{0, 4}, {1, 5}, {2, 6}, {3, 7}};
  CHECK(ReadGroups("[4,2]<=[2,4]T(1,0)", 8) == columns);
  CHECK(ReadGroups("mesh['a'=2,'b'=4] {'a'}", 8) == columns);
  CHECK(ReadGroups("mesh['x'=2,'y'=2], device_ids=(0,2,1,3) {'x'}", 4) ==
        Groups{{0, 1}, {2, 3}});
  CHECK(ReadGroups("mesh['d'=8] {'d':(2)2}", 8) ==
        Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}});
  CHECK(ReadGroups("", 2) == Groups{{0, 1}});
  CHECK(ReadGroups("{}", 2) == Groups{{0, 1}});
}

TEST_CASE("device ids of a mesh are the transposed device numbers in order") {
  // iota(8) as 2 x 4, transposed, is 0 4 1 5 2 6 3 7. The mesh 2 x 4 has the
  // devices in this order, so members of a group along 'a' are 4 places apart.
  CHECK(ReadGroups("mesh['a'=2,'b'=4], device_ids=([2,4]T(1,0)) {'a'}", 8) ==
        Groups{{0, 2}, {4, 6}, {1, 3}, {5, 7}});
}

TEST_CASE("malformed groups are refused") {
  for (const char* text :
       {"{{0,1},{2,9}}", "{{0,1}", "{0,1}", "[2,4]<=[4]", "[2,4]<=[2,4]T(1,1)",
        "[0,0]<=[0]", "mesh['a'=2] {'b'}", "mesh['a'=4] {'a':(3)2}",
        "mesh['a'=0] {'a'}", "mesh['a'=16] {'a'}", "[2]<=[1048577,4]",
        "mesh['a'=2], device_ids=([3]) {'a'}", "x", "{{-1,0}}",
        "mesh['a'=2], device_ids=([1048577,4]) {'a'}",
        "mesh['a'=1048577] {'a'}",
        "[1,9223372036854775807]<=[9223372036854775807]"}) {
    CAPTURE(text);
    CHECK_FALSE(ReadGroups(text, 8));
  }
  CHECK_FALSE(ReadPairs("{{0,1,2}}", 8));
  CHECK_FALSE(ReadPairs("", 8));
  CHECK(ReadPairs("{{0,1},{1,0}}", 8)->size() == 2);
}

std::optional<Program> Read(std::string text, Findings& findings) {
  return ReadProgram(MakeSource("p.txt", std::move(text)), findings);
}

constexpr const char* kModule = R"(HloModule jit_f, num_partitions=4, x={a}

FileNames
1 "model.py"
2 "/lib/site-packages/flax/linear.py"

FunctionNames
1 "<module>"
2 "layer"

FileLocations
1 {file_name_id=1 function_name_id=1 line=9 end_line=9 column=1 end_column=2}
2 {file_name_id=1 function_name_id=2 line=3 end_line=3 column=1 end_column=2}
3 {file_name_id=2 function_name_id=2 line=70 end_line=70 column=1 end_column=2}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=2}
3 {file_location_id=3 parent_frame_id=3}

%f (x: f32[2]) -> f32[2] {
  %x = f32[2]{0} parameter(0)
  ROOT %y = f32[2]{0} new-opcode(%x), metadata={op_name="a" stack_frame_id=3}
}, execution_thread="parallel"

ENTRY %main (p: f32[2]) -> f32[2] {
  %p = f32[2]{0} parameter(0), metadata={op_name="p[\'w\']"}
  ROOT %z = f32[2]{0} call(%p), to_apply=%f
}
)";

TEST_CASE("a module's computations and frames are read") {
  Findings findings;
  const auto program = Read(kModule, findings);
  REQUIRE(program);
  CHECK(program->name == "jit_f");
  CHECK(program->devices == 4);
  REQUIRE(program->computations.size() == 2);
  CHECK(program->entry == 1);
  CHECK(program->instructions[program->computations[0].root].name == "y");
  const auto metadata =
      AttributeOf(program->instructions[1].attributes, "metadata");
  const auto stack = program->frames.StackOf(*metadata);
  REQUIRE(stack.size() == 3);
  CHECK(stack[0].line == 70);
  CHECK(UserLine(stack) == SourceLine{"model.py", "layer", 3});
  CHECK(stack[2].line == 9);
}

TEST_CASE("the settings of a module are read after empty lines") {
  const std::string text =
      "HloModule m, is_scheduled=true, entry_computation_layout="
      "{(f32[2]{0:T(128)})->f32[2]{0:T(128)}}\n\n"
      "ENTRY %main (p: f32[2]) -> f32[2] {\n"
      "  ROOT %p = f32[2]{0} parameter(0)\n}\n";
  for (const char* const before : {"", "\n", " \t\r\n\r\n"}) {
    Findings findings;
    const auto program = Read(before + text, findings);
    REQUIRE(program);
    CHECK(program->IsScheduled());
    CHECK(program->HasTiles());
  }
}

TEST_CASE("a program's instructions are those that a line is split into") {
  const std::string lines[] = {
      "  %x = f32[2]{0} parameter(0)",
      "%y.1 =   (f32[2], /*index=1*/s4[])\t custom-call(%x, f32[2] %x), a={b}",
      "\tz = f32[] constant({1, 2}) , metadata={op_name=\"f\"}",
      "  ROOT %w = f32[] negate(z)", "  %v = f32[] after-all(),\r"};
  std::string text = "HloModule m\nENTRY %e {\n";
  constexpr size_t kTimes = 9000;  // over several chunks
  for (size_t i = 0; i < kTimes; ++i) {
    for (const std::string& line : lines) text += line + "\n";
  }
  Findings findings;
  const auto program = Read(text + "}", findings);
  REQUIRE(program);
  REQUIRE(program->instructions.size() == kTimes * std::size(lines));
  CHECK(program->instructions.opcodes().size() == 5);
  size_t different = 0;
  for (size_t i = 0; i < program->instructions.size(); ++i) {
    std::string_view line = lines[i % std::size(lines)];
    if (line.ends_with('\r')) line.remove_suffix(1);
    const auto split = SplitInstruction(line);
    REQUIRE(split);
    const Instruction one = program->instructions[i];
    const bool same =
        one.name == split->name && one.type == split->type &&
        one.opcode == split->opcode && one.operands == split->operands &&
        one.attributes == split->attributes && one.root == split->root &&
        program->instructions.NameOf(i) == split->name;
    different += same ? 0 : 1;
  }
  CHECK(different == 0);
}

TEST_CASE(
    "a frame whose parent has its own number is called by the one before"
    " it") {
  Frames frames;
  frames.Begin("FileNames");
  frames.Add("1 \"a.py\"");
  frames.Begin("FileLocations");
  frames.Add("1 {file_name_id=1 function_name_id=0 line=1}");
  frames.Add("2 {file_name_id=1 function_name_id=0 line=2}");
  frames.Begin("StackFrames");
  frames.Add("1 {file_location_id=1 parent_frame_id=1}");
  frames.Add("2 {file_location_id=2 parent_frame_id=2}");
  frames.Add("3 {file_location_id=1 parent_frame_id=9}");
  CHECK(frames.StackOf("{stack_frame_id=2}").size() == 2);
  CHECK(frames.StackOf("{stack_frame_id=1}").size() == 1);
  CHECK(frames.StackOf("{stack_frame_id=3}").size() == 1);
  CHECK(frames.StackOf("{stack_frame_id=99}").empty());
}

TEST_CASE("older texts hold one line in the metadata") {
  const auto stack = Frames().StackOf(
      R"({op_name="f" source_file="progs.py" source_line=83})");
  REQUIRE(stack.size() == 1);
  CHECK(stack[0] == SourceLine{"progs.py", "", 83});
}

TEST_CASE("a text that is no complete module has one finding with a place") {
  const std::string module = kModule;
  const std::string texts[] = {
      "",
      "\n\n",
      "module @jit_f {\n}\n",
      "{\"a\": 1}",
      "HloModule m\n",
      "HloModule m, num_partitions=0\nENTRY %e {\n}\n",
      "HloModule m, num_partitions=99999999999999999999\nENTRY %e {\n}\n",
      "HloModule m, num_partitions=1048576, replica_count=2\nENTRY %e {\n}\n",
      module + module,
      module.substr(0, module.size() - 30),
      "HloModule m\nENTRY %e {\n  %x = f32[2 add(\n}\n",
  };
  for (const std::string& text : texts) {
    CAPTURE(text);
    Findings findings;
    CHECK_FALSE(Read(text, findings));
    REQUIRE(findings.all().size() == 1);
    CHECK(findings.all()[0].place.source != nullptr);
    CHECK_FALSE(findings.all()[0].help.empty());
  }
}

}  // namespace
}  // namespace shardc::hlo
