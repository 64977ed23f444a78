// `shardc eval NAME`: evaluates one function of eformer, EasyDeL or fjformer on
// a JSON input, which is an object, or a list of objects that are evaluated one
// by one. For example,
//   echo '{"text": "a"}' | shardc eval get_safe_hash_int
// prints
//   {"decimal": "16955237001963240173058271559858726497"}
#include "eval/call.h"

#include "cli/commands.h"
#include "cli/output.h"
#include "emit/verify/dump.h"
#include "source/file.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

struct EvalFlags {
  std::string name, input = "-", tensors, save, output;
};

Strings FunctionNames() {
  Strings names;
  for (const eval::Function* function : eval::Functions()) {
    names.emplace_back(function->name);
  }
  return names;
}

std::string FunctionsText() {
  std::string out;
  for (const eval::Function* function : eval::Functions()) {
    out +=
        std::string(function->name) + ": " + std::string(function->what) + "\n";
  }
  return out;
}

std::string FunctionsJson() {
  return JsonText([](JsonWriter& json) {
           json.BeginObject(JsonLayout::kLines);
           for (const eval::Function* function : eval::Functions()) {
             json.Member(function->name, function->what);
           }
           json.EndObject();
         }) +
         "\n";
}

std::string TensorBytes(const eval::Returned& arrays) {
  TensorFile file;
  for (const auto& [name, buffer] : arrays) file.Add(name, buffer);
  return file.Take();
}

int RunEval(const EvalFlags& flags, const Common& common, Findings& findings) {
  if (flags.name.empty()) {
    const bool json = common.format == "json";
    return PutResult(json ? FunctionsJson() : FunctionsText(), flags.output,
                     findings)
               ? kDone
               : kFailed;
  }
  const eval::Function* function = eval::FindFunction(flags.name);
  if (function == nullptr) {
    findings.Add(code::kUsage, {},
                 "there is no function " + ShortQuote(flags.name),
                 DidYouMean(flags.name, FunctionNames(),
                            "`shardc eval` lists the functions"));
    return kFailed;
  }
  if (AreOneFile(flags.output, flags.save)) {
    findings.Add(code::kUsage, {}, "`--output` and `--save` name one file",
                 "give two different files");
    return kFailed;
  }
  std::optional<eval::Arrays> arrays;
  if (!flags.tensors.empty()) {
    const SourceRef source = ReadSource(flags.tensors, findings);
    if (source == nullptr) return kFailed;
    arrays = eval::ReadArrays(source, findings);
    if (!arrays) return kFailed;
  }
  const SourceRef source = ReadSource(flags.input, findings);
  if (source == nullptr) return kFailed;
  const auto document = JsonDocument::Parse(source, findings);
  if (document == nullptr) return kFailed;
  eval::Returned aside;
  bool good = false;
  const std::string text = JsonText([&](JsonWriter& json) {
    good =
        eval::Evaluate(*function, document->root(), arrays ? &*arrays : nullptr,
                       flags.save.empty() ? nullptr : &aside, json, findings);
  });
  if (!good) return kFailed;
  if (flags.save.empty()) {
    return PutResult(text + "\n", flags.output, findings) ? kDone : kFailed;
  }
  const auto save = [&](Sink& out) { out.Append(TensorBytes(aside)); };
  const auto write = [&](Sink& out) { out.Append(text + "\n"); };
  return PutResults({save, flags.save}, {write, flags.output}, findings)
             ? kDone
             : kFailed;
}

Options OptionsOf(EvalFlags& flags) {
  return {
      {.name = "NAME",
       .to = &flags.name,
       .help = "a function; without it they are listed with their inputs",
       .words = FunctionNames},
      {.name = "--input",
       .need = HelpNeed::kOften,
       .to = &flags.input,
       .value = "FILE",
       .help = "a JSON object, or a list of them to evaluate one by one "
               "(default: -, standard input)"},
      {.name = "--tensors",
       .need = HelpNeed::kOften,
       .to = &flags.tensors,
       .value = "FILE",
       .help = "a safetensors file; `{\"tensor\": NAME}` in the "
               "input is one of its arrays"},
      {.name = "--save",
       .need = HelpNeed::kOften,
       .to = &flags.save,
       .value = "FILE",
       .help = "safetensors file to write the arrays of the result "
               "to; their names stand in their place"},
      OutputOption(&flags.output, "file to write (default: standard output)")};
}

}  // namespace

Declared DeclareEval() { return Declare(OptionsOf, RunEval); }

}  // namespace shardc::cli
