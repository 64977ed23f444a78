#include "stored/pickle.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "stored/pickle_bytes.h"

namespace shardc::stored {
namespace {

using namespace test;

constexpr PickleGlobal kGlobals[] = {
    {"torch", "Size", PickleGlobal::Use::kCall},
    {"torch", "float32", PickleGlobal::Use::kConstant},
    {"m", "Record", PickleGlobal::Use::kRecord},
    {"collections", "OrderedDict", PickleGlobal::Use::kDictionary},
    {"m", "Colour", PickleGlobal::Use::kEnumeration},
    {"builtins", "getattr", PickleGlobal::Use::kMember},
};

std::string WhyRefused(const std::string& bytes) {
  std::string why;
  const auto pickle = Pickle::Parse(bytes, {.globals = kGlobals}, &why);
  CHECK(pickle.has_value() == why.empty());
  return why;
}

TEST_CASE("pickle: values of each type are read") {
  const std::string bytes = PickleOf(Record(
      Global("m", "Record"),
      Dict({{Text("sizes"), Sizes({3, -4})},
            {Text("list"), List({"N", "\x88", "\x89", "K\x07", "M\x01\x02"})},
            {Text("type"), Global("torch", "float32")},
            {Text("none"), Call(Global("collections", "OrderedDict"), {})}})));
  std::string why;
  const auto pickle = Pickle::Parse(bytes, {.globals = kGlobals}, &why);
  REQUIRE(pickle);
  const PickleValue root = pickle->root();
  CHECK(root.Is("Record"));
  CHECK(root.type() == PickleValue::Type::kRecord);
  const PickleValue sizes = root.Field("sizes").Content()[0];
  CHECK(sizes.size() == 2);
  CHECK(sizes[0].Int() == 3);
  CHECK(sizes[1].Int() == -4);
  const PickleValue list = root.Field("list");
  REQUIRE(list.size() == 5);
  CHECK(list[0].type() == PickleValue::Type::kNone);
  CHECK(list[1].Bool() == true);
  CHECK(list[2].Bool() == false);
  CHECK(list[3].Int() == 7);
  CHECK(list[4].Int() == 0x201);
  CHECK(root.Field("type").Global()->name == "float32");
  CHECK(root.Field("none").type() == PickleValue::Type::kDictionary);
  CHECK(root.Field("absent").type() == PickleValue::Type::kAbsent);
}

TEST_CASE("pickle: a value of the memo is one value") {
  std::string why;
  const std::string bytes = PickleOf("(" + Text("ab") + "q\x01h\x01t");
  const auto pickle = Pickle::Parse(bytes, {.globals = kGlobals}, &why);
  REQUIRE(pickle);
  CHECK(pickle->root()[0].Text() == "ab");
  CHECK(pickle->root()[0].id() == pickle->root()[1].id());
}

TEST_CASE("pickle: a list that contains itself is read and not followed") {
  std::string why;
  const std::string bytes = PickleOf(
      "]q\x01h\x01"
      "a");
  const auto pickle = Pickle::Parse(bytes, {.globals = kGlobals}, &why);
  REQUIRE(pickle);
  CHECK(pickle->root()[0].id() == pickle->root().id());
}

TEST_CASE("pickle: deep nesting needs no recursion") {
  std::string value = "N";
  value.append(1'000'000, '\x85');
  CHECK(WhyRefused(PickleOf(value)).empty());
  CHECK(WhyRefused(PickleOf(std::string(1000, '(') + "N")) ==
        "the pickle stops with 1 values and 1000 open marks, and should leave "
        "one value (at byte 1003)");
}

TEST_CASE("pickle: globals that are not listed are refused by name") {
  CHECK(WhyRefused(PickleOf(Call(Global("os", "system"), {Text("true")}))) ==
        "the pickle refers to `os.system`, which checkpoints do not need; "
        "nothing of it was run (at byte 2)");
  CHECK(WhyRefused(PickleOf(Text("builtins") + Text("eval") + "\x93"))
            .find("`builtins.eval`") != std::string::npos);
  // A listed name is refused if it is used in another way.
  CHECK(WhyRefused(PickleOf(Call(Global("m", "Record"), {})))
            .starts_with("the pickle calls `m.Record`"));
  CHECK(WhyRefused(PickleOf(Call(Global("torch", "float32"), {})))
            .starts_with("the pickle calls `torch.float32`"));
  CHECK(WhyRefused(PickleOf(Record(Global("torch", "Size"), "}")))
            .starts_with("the pickle makes an object of `torch.Size`"));
  CHECK(WhyRefused(
            PickleOf(Call(Global("collections", "OrderedDict"), {List({})})))
            .starts_with("the pickle calls `collections.OrderedDict`"));
}

TEST_CASE("pickle: getattr names members of listed enumerations only") {
  const std::string getattr = Global("builtins", "getattr");
  const std::string colour = Global("m", "Colour");
  CHECK(WhyRefused(PickleOf(Call(getattr, {colour, Text("RED")}))).empty());
  CHECK(WhyRefused(PickleOf(Call(colour, {Int(0)}))).empty());
  const std::vector<std::vector<std::string>> others = {
      {Global("m", "Record"), Text("__init__")},
      {Text("text"), Text("join")},
      {colour, Int(1)},
      {colour},
      {colour, Text("RED"), "N"},
      {}};
  for (const std::vector<std::string>& arguments : others) {
    CHECK(WhyRefused(PickleOf(Call(getattr, arguments)))
              .starts_with("the pickle calls `builtins.getattr`"));
  }
  CHECK(WhyRefused(PickleOf(getattr + "N\x85R"))
            .starts_with("the pickle calls `builtins.getattr`"));
}

TEST_CASE("pickle: other operations are refused by name") {
  CHECK(WhyRefused(PickleOf("(i"
                            "os\nsystem\n")) ==
        "the pickle uses the operation INST, which checkpoints do not need; "
        "nothing of it was run (at byte 3)");
  CHECK(WhyRefused(PickleOf("(o")).find("OBJ") != std::string::npos);
  CHECK(WhyRefused(PickleOf("\x82\x01")).find("EXT") != std::string::npos);
  CHECK(WhyRefused(PickleOf("\x92")).find("NEWOBJ_EX") != std::string::npos);
  CHECK(WhyRefused(PickleOf(Text("0") + "Q")).find("0x51") !=
        std::string::npos);
  for (int op = 0; op < 256; ++op) {
    WhyRefused(PickleOf(std::string(1, static_cast<char>(op))));
    WhyRefused(PickleOf("NN" + std::string(1, static_cast<char>(op))));
    WhyRefused(PickleOf("(N" + std::string(9, static_cast<char>(op))));
  }
}

TEST_CASE("pickle: malformed pickles are refused") {
  CHECK(WhyRefused("") ==
        "the file does not begin as a pickle of protocol 2 to 5 (at byte 0)");
  CHECK(WhyRefused("(dp0\n.").starts_with("the file does not begin"));
  CHECK(WhyRefused(PickleOf("h\x05")) ==
        "the pickle refers to value 5 of its memo, which was never set "
        "(at byte 2)");
  CHECK(WhyRefused(PickleOf("N") + "N").find("followed by 1 other bytes") !=
        std::string::npos);
  CHECK(WhyRefused(PickleOf("NN")).starts_with("the pickle stops with 2"));
  CHECK(WhyRefused(PickleOf("")).starts_with("the pickle stops with 0"));
  CHECK(WhyRefused(PickleOf("Nr\xff\xff\xff\x0f"))
            .starts_with("the pickle numbers a value"));
  CHECK(WhyRefused(PickleOf("X\x02" + std::string(3, '\0') + "\xff\xfe"))
            .starts_with("a text of the pickle is not UTF-8"));
  CHECK(WhyRefused(PickleOf("\x8a\x09" + std::string(9, '\x01')))
            .starts_with("a number of the pickle exceeds 64 bits"));
  CHECK(WhyRefused(PickleOf("](NNu")).starts_with("the pickle adds elements"));
  CHECK(WhyRefused(PickleOf("}(Nu")).starts_with("a key of a dictionary"));
  CHECK(WhyRefused(PickleOf("N}b")).starts_with("the pickle sets the state"));
  CHECK(WhyRefused(PickleOf("](N\x85"
                            "a"))
            .starts_with("an operation of the pickle"));
  CHECK(WhyRefused(PickleOf("](a")).starts_with("an operation of the pickle"));
  const std::string good = PickleOf(Dict({{Text("key"), Sizes({1, 2, 300})}}));
  CHECK(WhyRefused(good).empty());
  for (size_t size = 0; size < good.size(); ++size) {
    CHECK_FALSE(WhyRefused(good.substr(0, size)).empty());
  }
}

TEST_CASE("pickle: the number of values is limited") {
  std::string why;
  std::string texts = "(";
  for (int i = 0; i < 100; ++i) texts += Text("a");
  const std::string bytes = PickleOf(texts + "t");
  CHECK_FALSE(
      Pickle::Parse(bytes, {.globals = kGlobals, .max_values = 50}, &why));
  CHECK(why.find("more than 50 values") != std::string::npos);
  CHECK(Pickle::Parse(bytes, {.globals = kGlobals, .max_values = 500}, &why));
  // Containers cost more than other values.
  const std::string lists = PickleOf("(" + std::string(100, ']') + "t");
  CHECK_FALSE(
      Pickle::Parse(lists, {.globals = kGlobals, .max_values = 300}, &why));
  CHECK(why.find("too many lists and dictionaries") != std::string::npos);
  CHECK(Pickle::Parse(lists, {.globals = kGlobals, .max_values = 500}, &why));
}

}  // namespace
}  // namespace shardc::stored
