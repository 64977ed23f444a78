// `shardc example`: writes a small project to learn from. The files are part of
// the program; examples/meson.build lists them.
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "cli/commands.h"
#include "cli/file_set.h"
#include "cli/output.h"
#include "model/name.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

struct ExampleFlags {
  std::string name, folder;
};

// Returns the names of the projects, each once.
Strings ExampleNames() {
  Strings out;
  for (const EmbeddedFile& file : EmbeddedExamples()) {
    const std::string_view name = file.name.substr(0, file.name.find(':'));
    if (out.empty() || out.back() != name) out.emplace_back(name);
  }
  return out;
}

// Returns the files of a project. The project file is the last, so that it
// exists only if all other files do.
std::vector<NewFile> FilesOf(const std::string& name) {
  std::vector<NewFile> out;
  for (const EmbeddedFile& file : EmbeddedExamples()) {
    if (!file.name.starts_with(name + ":")) continue;
    out.push_back({std::string(file.name.substr(name.size() + 1)),
                   std::string(file.text)});
  }
  return out;
}

int RunExample(const ExampleFlags& flags, const Common& common,
               Findings& findings) {
  const Strings names = ExampleNames();
  if (flags.name.empty())
    return PutOut(Join(names, "\n") + "\n", findings) ? kDone : kFailed;
  const std::vector<NewFile> files = FilesOf(flags.name);
  if (files.empty()) {
    findings.Add(code::kUsage, {},
                 ShortQuote(flags.name) + " is not an example",
                 DidYouMean(flags.name, names,
                            "the examples are " + Join(names, ", ", Quote)));
    return kFailed;
  }
  if (flags.folder.empty()) {
    findings.Add(code::kUsage, {}, "no folder is given",
                 "write `shardc example " + flags.name + " FOLDER`");
    return kFailed;
  }
  if (!AllAreNew(flags.folder, files, findings)) return kFailed;
  NewFileWriter writer(flags.folder);
  if (!writer.Write(files, findings)) return kFailed;
  writer.Keep();
  std::string text;
  for (const NewFile& file : files) {
    text += "wrote       " + Printable(flags.folder) + "/" + file.path + "\n";
  }
  PrintMessage(common, text + "\nNext:\n  cd " + ShellWord(flags.folder) +
                           "\n  shardc check        # finds the mistake\n"
                           "  shardc plan -o plan.json\n"
                           "  shardc show plan.json\n"
                           "  shardc cost\n");
  return kDone;
}

Options OptionsOf(ExampleFlags& flags) {
  return {{.name = "NAME",
           .to = &flags.name,
           .help = "the example (default: list the names)",
           .words = ExampleNames},
          {.name = "FOLDER",
           .to = &flags.folder,
           .help = "folder to write to; it is made if it is missing"}};
}

}  // namespace

Declared DeclareExample() { return Declare(OptionsOf, RunExample); }

}  // namespace shardc::cli
