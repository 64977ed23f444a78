// Prints facts about the program as JSON: the content of man/commands.json or,
// with `operations`, `devices`, `collectives` or `ops`, what schemas, the
// manual and the guides state about these.
//
//   [{"name": "sdpa", "settings": ["runtime_dtype", ...]}]
#include <cstdio>
#include <string_view>

#include "cli/command.h"
#include "comm/collective.h"
#include "devices/profiles.h"
#include "exec/operations/operation.h"
#include "model/operation_settings.h"
#include "source/json_writer.h"
#include "source/wording.h"
#include "step/lines.h"

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

void WriteDevices(shardc::JsonWriter& json) {
  json.BeginArray(shardc::JsonLayout::kLines);
  for (const shardc::DeviceProfile& profile : shardc::DeviceProfiles()) {
    json.BeginObject();
    json.Member("name", profile.name);
    if (!profile.alias.empty()) json.Member("alias", profile.alias);
    json.Member("memory", shardc::BytesText(profile.DeviceMemory()));
    json.EndObject();
  }
  json.EndArray();
}

void WriteCollectives(shardc::JsonWriter& json) {
  json.BeginArray(shardc::JsonLayout::kLines);
  for (size_t i = 0; i < shardc::kCollectiveCount; ++i) {
    const auto& of = shardc::DefOf(static_cast<shardc::Collective>(i));
    json.BeginObject();
    json.Member("name", of.name);
    json.Member("listed_if_sent", of.listed_if_sent);
    json.EndObject();
  }
  json.EndArray();
}

void WriteOps(shardc::JsonWriter& json) {
  json.BeginArray(shardc::JsonLayout::kLines);
  for (const shardc::step::OpText& op : shardc::step::OpTexts()) {
    json.BeginObject();
    json.Member("name", op.name);
    json.Member("arguments", op.arguments);
    json.Member("text", op.text);
    json.EndObject();
  }
  json.EndArray();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "";
  const std::string text =
      what == "operations"    ? shardc::JsonText(WriteOperations)
      : what == "devices"     ? shardc::JsonText(WriteDevices)
      : what == "collectives" ? shardc::JsonText(WriteCollectives)
      : what == "ops"         ? shardc::JsonText(WriteOps)
                              : shardc::cli::DescribeCommands();
  return std::fputs(text.c_str(), stdout) < 0;
}
