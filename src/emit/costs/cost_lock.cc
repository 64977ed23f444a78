#include "emit/costs/cost_lock.h"

#include <cmath>
#include <cstdint>

#include "source/json_writer.h"

namespace shardc {
namespace {

// Writes bytes as an integer. A time is not a whole number of seconds.
void WriteNumber(JsonWriter& json, std::string_view key, double value,
                 bool bytes) {
  constexpr double kMost = 9.2e18;
  if (bytes && value < kMost) {
    json.Member(key, static_cast<int64_t>(std::llround(value)));
  } else {
    json.Member(key, value);
  }
}

}  // namespace

void WriteCostLock(const cost::CostLock& lock, Sink& out) {
  JsonWriter json(out);
  json.BeginObject(JsonLayout::kLines);
  json.Member("schema", cost::kCostLockSchema);
  json.Member("plan", lock.plan);
  json.Member("mode", ModeName(lock.mode));
  for (size_t i = 0; i < lock.figures.size(); ++i) {
    const cost::StepFigure& figure = lock.figures[i];
    const bool bytes =
        static_cast<cost::BudgetFigure>(i) != cost::BudgetFigure::kTime;
    json.Key(cost::kBudgetFigureNames[i]);
    json.BeginObject();
    if (figure.value) {
      WriteNumber(json, "value", *figure.value, bytes);
    } else {
      json.Key("value");
      json.Null();
    }
    json.Member("at_least", figure.at_least);
    json.Key("parts");
    json.BeginObject();
    for (const auto& [name, value] : figure.parts) {
      WriteNumber(json, name, value, bytes);
    }
    json.EndObject();
    json.EndObject();
  }
  json.EndObject();
  out.Put('\n');
}

}  // namespace shardc
