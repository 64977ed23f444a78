// Writes the commands with their options as JSON, without empty members. The
// manual and the completions are generated from this JSON, so that they match
// the program:
//
//   {"name": "--quiet", "letter": "q", "flag": true, "help": "..."}
#include "cli/describe.h"

#include <string_view>
#include <utility>

#include "cli/command.h"
#include "source/json_writer.h"

namespace shardc::cli {
namespace {

// The indentation level, in the JSON text, of the members of a command's
// object. The command's options are one level deeper.
constexpr int kMemberIndent = 3;

// Writes a member unless the text is empty.
void WriteText(JsonWriter& json, std::string_view key, std::string_view text) {
  if (!text.empty()) json.Member(key, text);
}

void WriteTrue(JsonWriter& json, std::string_view key, bool value) {
  if (value) json.Member(key, true);
}

void WriteOption(JsonWriter& json, const Option& option) {
  json.BeginObject();
  WriteText(json, "name", option.name);
  WriteText(json, "letter",
            {&option.letter, option.letter == 0 ? size_t{0} : size_t{1}});
  WriteText(json, "also", option.also);
  WriteTrue(json, "flag", option.IsFlag());
  WriteText(json, "value", option.value);
  WriteText(json, "help", option.help);
  WriteTrue(json, "required", option.required);
  WriteTrue(json, "file", option.TakesFile());
  const Strings words = option.words.empty() ? option.Choices() : option.words;
  if (!words.empty()) {
    json.Key("words");
    json.Array(words);
  }
  json.EndObject();
}

void WriteCommand(JsonWriter& json, const Command& command) {
  json.BeginObject();
  json.Member("name", command.name);
  json.Break(kMemberIndent);
  json.Member("summary", command.summary);
  json.Break(kMemberIndent);
  json.Member("about", command.about);
  json.Break(kMemberIndent);
  json.Member("example", command.example);
  json.Break(kMemberIndent);
  json.Key("options");
  json.BeginArray();
  Common common;
  Declared declared = command.declare();
  for (const Option& option :
       WithCommon(std::move(declared.options), command, common)) {
    json.Break(kMemberIndent + 1);
    WriteOption(json, option);
  }
  json.EndArray();
  json.EndObject();
}

}  // namespace

std::string DescribeCommands() {
  return JsonText([](JsonWriter& json) {
           json.BeginArray(JsonLayout::kLines);
           for (const Command& command : Commands()) {
             WriteCommand(json, command);
           }
           json.EndArray();
         }) +
         "\n";
}

}  // namespace shardc::cli
