#include "program/programs.h"

#include <doctest/doctest.h>

#include <map>

#include "program/facts.h"
#include "program/read.h"

namespace shardc::program {
namespace {

std::string ListText(const std::vector<ValueId>& ids) {
  std::string out;
  for (const ValueId id : ids)
    out += (out.empty() ? "" : ",") + std::to_string(id);
  return "[" + out + "]";
}

void Append(std::string& list, const std::string& item) {
  list += (list.empty() ? "" : ",") + item;
}

std::string NameOf(FactorId factor, const FactorTable& table,
                   std::map<FactorId, char>& names) {
  if (!table.IsSum(factor)) {
    const char next = static_cast<char>('a' + names.size());
    return names.emplace(factor, next).first->second +
           std::to_string(table.SizeOf(factor));
  }
  std::string out;
  for (const Factors& part : table.PartsOf(factor)) {
    std::string text;
    for (const FactorId inner : part) {
      text += (text.empty() ? "" : " ") + NameOf(inner, table, names);
    }
    out += (out.empty() ? "" : "|") + (text.empty() ? "1" : text);
  }
  return "(" + out + ")";
}

}  // namespace

ValueId ProgramText::Value(const Shape& shape) {
  shapes_.push_back(shape);
  return static_cast<ValueId>(shapes_.size() - 1);
}

ValueId ProgramText::Input(std::string_view kind, std::string_view name,
                           const Shape& shape) {
  const ValueId id = Value(shape);
  Append(inputs_, R"({"value":)" + std::to_string(id) + R"(,"kind":")" +
                      std::string(kind) + R"(","name":")" + std::string(name) +
                      "\"}");
  return id;
}

ValueId ProgramText::Op(std::string_view op, const std::vector<ValueId>& in,
                        const Shape& shape, std::string_view rest) {
  return Ops(op, in, {shape}, rest);
}

ValueId ProgramText::Ops(std::string_view op, const std::vector<ValueId>& in,
                         const std::vector<Shape>& shapes,
                         std::string_view rest) {
  std::vector<ValueId> out;
  for (const Shape& shape : shapes) out.push_back(Value(shape));
  std::string text = R"({"op":")" + std::string(op) + R"(","in":)" +
                     ListText(in) + R"(,"out":)" + ListText(out) +
                     R"(,"at":[0,)" + std::to_string(++line_) + "]";
  if (!phase_.empty()) text += R"(,"phase":")" + phase_ + "\"";
  if (!rest.empty()) text += "," + std::string(rest);
  Append(scopes_.back().ops, text + "}");
  return out.empty() ? 0 : out.front();
}

ValueId ProgramText::MatMul(ValueId left, ValueId right) {
  Shape shape = shapes_[left];
  const std::string last = std::to_string(shape.size() - 1);
  shape.back() = shapes_[right][1];
  return Op("dot", {left, right}, shape,
            R"("lhs_contract":[)" + last +
                R"(],"rhs_contract":[0],"lhs_batch":[],"rhs_batch":[])");
}

std::vector<ValueId> ProgramText::Begin(const std::vector<Shape>& shapes) {
  std::vector<ValueId> in;
  for (const Shape& shape : shapes) in.push_back(Value(shape));
  scopes_.push_back({ListText(in), {}});
  return in;
}

std::string ProgramText::End(const std::vector<ValueId>& out) {
  const Scope scope = scopes_.back();
  scopes_.pop_back();
  return R"({"in":)" + scope.in + R"(,"ops":[)" + scope.ops + R"(],"out":)" +
         ListText(out) + "}";
}

std::string ProgramText::Json(const std::vector<ValueId>& outputs) const {
  std::string values;
  for (const Shape& shape : shapes_) {
    Append(values, R"({"shape":)" + ShapeText(shape) + R"(,"dtype":"F32"})");
  }
  return R"({"schema":"shardc.program/v1","traced":{"by":"a test","function":)"
         R"("m:f"},"files":["m.py"],"values":[)" +
         values + R"(],"inputs":[)" + inputs_ + R"(],"ops":[)" +
         scopes_.front().ops + R"(],"outputs":)" + ListText(outputs) +
         R"(,"assumptions":[],"unknown":[]})";
}

Program ProgramText::Read() const {
  Findings findings;
  auto program = ReadProgram(MakeSource("p.json", Json()), findings);
  for (const Finding& finding : findings.all()) {
    FAIL(finding.message << " at " << finding.place.ToString());
  }
  REQUIRE(program);
  return std::move(*program);
}

std::string DimsText(const Ties& ties, const std::vector<ValueId>& values) {
  std::map<FactorId, char> names;
  std::string out;
  for (const ValueId value : values) {
    out += out.empty() ? "" : "; ";
    for (size_t d = 0; d < ties.dims[value].size(); ++d) {
      std::string dim;
      for (const FactorId factor : ties.table.Resolve(ties.dims[value][d])) {
        dim += (dim.empty() ? "" : " ") + NameOf(factor, ties.table, names);
      }
      out += (d == 0 ? "[" : " [") + dim + "]";
    }
  }
  return out;
}

std::string FactsText(const Program& program) {
  const Facts facts = FindFacts(program);
  std::string out;
  for (const ParamFacts& param : facts.params) {
    out += param.name;
    for (const FactorList& dim : param.dims)
      out += " [" + facts.Text(dim) + "]";
    out += "\n";
  }
  return out;
}

}  // namespace shardc::program
