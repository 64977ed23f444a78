// Prints what files say of the program in its own words: man/commands.json,
// or with `operations` what the schemas hold of them.
//
//   [{"name": "sdpa", "settings": ["runtime_dtype", ...]}]
#include <cstdio>
#include <string_view>

#include "cli/describe.h"
#include "exec/operations/operation.h"
#include "model/operation_settings.h"
#include "source/json_writer.h"

namespace {

void WriteOperations(shardc::JsonWriter& json) {
  json.BeginArray(shardc::JsonLayout::kLines);
  for (const auto& operation : shardc::exec::KnownOperations()) {
    json.BeginObject();
    json.Member("name", operation.name);
    json.Key("settings");
    json.BeginArray();
    for (size_t i = 0; i < shardc::kSettingNames.size(); ++i) {
      const auto setting = static_cast<shardc::Setting>(i);
      if (operation.settings.Has(setting)) {
        json.String(shardc::SettingName(setting));
      }
    }
    json.EndArray();
    json.EndObject();
  }
  json.EndArray();
}

}  // namespace

int main(int argc, char** argv) {
  const bool operations = argc > 1 && std::string_view(argv[1]) == "operations";
  const std::string text = operations ? shardc::JsonText(WriteOperations)
                                      : shardc::cli::DescribeCommands();
  return std::fputs(text.c_str(), stdout) < 0;
}
