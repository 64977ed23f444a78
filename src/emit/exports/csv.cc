// Exports a plan as a table for spreadsheets and scripts (RFC 4180), with one
// row per parameter. One column has the specs of train mode. Another mode has
// its own column if at least one parameter has a different spec in that mode.
#include <algorithm>

#include "emit/exports/exporter.h"
#include "source/wording.h"

namespace shardc::exports {
namespace {

// Returns the text of a table cell. Invisible characters are escaped as on a
// terminal. A spreadsheet evaluates a cell that begins with one of `=+-@`, a
// tab or a carriage return as a formula. Such a cell gets a leading apostrophe.
std::string Cell(std::string_view raw) {
  std::string text = Printable(raw);
  if (raw.find_first_of("=+-@\t\r") == 0) text.insert(0, 1, '\'');
  if (text.find_first_of(",\"") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + '"';
}

std::vector<Mode> ModesThatDiffer(const ReadPlan& plan) {
  std::vector<Mode> out;
  for (const Mode mode : plan.modes) {
    const auto differs = [mode](const ReadParam& param) {
      return param.SpecOf(mode) != param.spec;
    };
    if (std::any_of(plan.params.begin(), plan.params.end(), differs)) {
      out.push_back(mode);
    }
  }
  return out;
}

// Returns the coordinates of the devices that hold a parameter: "ep=3" if the
// parameter is placed at one coordinate of `ep`, "pp=0,3" if it is in stages of
// two ranks. Returns an empty text if it has neither a place nor stages.
std::string PlaceText(const ReadPlan& plan, const ReadParam& param) {
  std::string out;
  if (param.placement) {
    out = param.placement->axis + "=" +
          std::to_string(param.placement->coordinate);
  }
  if (!plan.stages) return out;
  AppendItem(out, " ", plan.stages->axis + "=");
  bool first = true;
  for (const int32_t rank : RanksOf(*plan.stages, param.stages)) {
    out += (first ? "" : ",") + std::to_string(rank);
    first = false;
  }
  return out;
}

void WriteCsv(const Request& request, Sink& out, Findings&) {
  const ReadPlan& plan = request.plan;
  const std::vector<Mode> modes = ModesThatDiffer(plan);
  std::string head = "name,shape,dtype,spec,shard_shape,bytes_per_device,place";
  for (const Mode mode : modes) head += "," + std::string(ModeName(mode));
  out.Append(head + "\r\n");
  for (const ReadParam& param : plan.params) {
    const auto shard = ShardShape(plan.mesh, param.spec, param.type.shape);
    const auto bytes = ShardBytes(plan.mesh, param.spec, param.type);
    std::vector<std::string> cells = {
        param.name,
        param.type.shape ? ShapeText(*param.type.shape) : "",
        param.type.dtype ? std::string(DtypeName(*param.type.dtype)) : "",
        SpecText(param.spec) +
            InPartsText(ShardedParts(param.parts, param.spec)),
        shard ? ShapeText(*shard) : "",
        bytes ? std::to_string(*bytes) : "",
        PlaceText(plan, param)};
    for (const Mode mode : modes) {
      const Spec& spec = param.SpecOf(mode);
      cells.push_back(SpecText(spec) +
                      InPartsText(ShardedParts(param.parts, spec)));
    }
    for (size_t i = 0; i < cells.size(); ++i) {
      out.Append((i == 0 ? "" : ",") + Cell(cells[i]));
    }
    out.Append("\r\n");
  }
}

}  // namespace

constexpr Exporter kCsv{"csv",
                        "one row per parameter, for spreadsheets",
                        "text",
                        "",
                        WriteCsv,
                        /*of_stage=*/false,
                        /*lists_ranks=*/true,
                        /*for_people=*/true};

}  // namespace shardc::exports
