// Publishes a set of files. All bytes of all files are on the disk before the
// first file gets its name. A kill can therefore interrupt the run only between
// two names. The index then is a mark, which no reader accepts, and the same
// command finishes the set. For example, `init` gives these names:
//
//   shardc.yaml (the mark), m.manifest.json, rules.yaml, m.plan.json,
//   shardc.yaml (the project)
//
// The mark lists the digests of the files, so that the next run replaces only
// files that an interrupted run wrote.
#include "cli/file_set.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "source/digest.h"
#include "source/file.h"
#include "source/json.h"
#include "source/json_writer.h"
#include "source/repository.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kIndexName = "shardc.yaml";

// Returns the digest of a file, or nullopt if it cannot be read. The file is
// not noted as read, because a file that was read is never overwritten.
std::optional<std::string> DigestOf(const std::string& path) {
  Findings findings;
  const SourceRef source = ReadSource(path, findings);
  if (source == nullptr) return std::nullopt;
  return Sha256(source->text());
}

// Returns kResumeIndex with the digests of the files except for the last one.
std::string MarkOf(const std::vector<NewFile>& files) {
  return JsonText([&](JsonWriter& json) {
           json.BeginObject(JsonLayout::kLines);
           json.Members("schema", kUnfinishedSchema, "message",
                        "a run was interrupted while it wrote a project; run "
                        "the same command again");
           json.Key("files");
           json.BeginObject();
           for (size_t i = 0; i + 1 < files.size(); ++i) {
             json.Member(files[i].path, Sha256(files[i].text));
           }
           json.EndObject();
           json.EndObject();
         }) +
         "\n";
}

// Makes a folder and those around it, and appends them to `made`. Returns false
// after a finding.
bool MakeFolder(const fs::path& folder, std::vector<fs::path>& made,
                Findings& findings) {
  std::error_code error;
  if (folder.empty() || fs::is_directory(folder, error)) return true;
  if (!MakeFolder(folder.parent_path(), made, findings)) return false;
  if (fs::create_directory(folder, error)) {
    made.push_back(folder);
    return true;
  }
  findings.Add(code::kWrite, {},
               "cannot make the folder `" + Printable(folder.string()) +
                   "`: " + error.message());
  return false;
}

}  // namespace

FileSet::~FileSet() {
  files_.clear();
  std::error_code error;
  while (!folders_.empty()) {
    // A folder that holds a published file is not empty and remains.
    fs::remove(folders_.back(), error);
    folders_.pop_back();
  }
}

bool FileSet::AddWithFolders(const std::string& path,
                             const std::function<void(FileSink& out)>& write,
                             Findings& findings) {
  return MakeFolder(fs::path(path).parent_path(), folders_, findings) &&
         Add(path, write, findings);
}

bool FileSet::Add(const std::string& path,
                  const std::function<void(FileSink& out)>& write,
                  Findings& findings) {
  auto file = std::make_unique<FileSink>(path);
  write(*file);
  if (!file->Prepare(findings)) return false;
  paths_.push_back(path);
  files_.push_back(std::move(file));
  return true;
}

bool FileSet::Publish(std::string_view mark, bool marks_new,
                      Findings& findings) {
  std::error_code error;
  if (files_.size() > 1 &&
      (marks_new || fs::is_regular_file(paths_.back(), error)) &&
      !WriteToFile(paths_.back(), mark, findings)) {
    return false;
  }
  for (const auto& file : files_) {
    if (!file->Commit(findings)) return false;
  }
  return true;
}

LeftFiles LeftFiles::Of(const std::string& folder) {
  LeftFiles out;
  out.folder_ = folder;
  Findings findings;
  const SourceRef mark =
      ReadSource((fs::path(folder) / kIndexName).string(), findings);
  if (mark == nullptr) return out;
  const auto document = JsonDocument::Parse(mark, findings);
  if (document == nullptr || !document->root().IsObject()) return out;
  const JsonValue root = document->root();
  const auto schema = root.Find("schema");
  const auto files = root.Find("files");
  if (!schema || !schema->IsString() || schema->string() != kUnfinishedSchema ||
      !files || !files->IsObject()) {
    return out;
  }
  out.any_ = true;
  for (const JsonMember file : files->members()) {
    if (!file.value.IsString()) continue;
    out.digests_.emplace(file.name(), file.value.string());
  }
  return out;
}

bool LeftFiles::Holds(const std::string& path) const {
  if (!any_) return false;
  if (path == kIndexName) return true;
  const auto found = digests_.find(path);
  return found != digests_.end() &&
         DigestOf((fs::path(folder_) / path).string()) == found->second;
}

bool AllAreNew(const std::string& folder, const std::vector<NewFile>& files,
               Findings& findings) {
  bool good = true;
  const LeftFiles left = LeftFiles::Of(folder);
  for (const NewFile& file : files) {
    std::error_code error;
    const fs::path path = fs::path(folder) / file.path;
    const fs::file_type type = fs::symlink_status(path, error).type();
    if (type == fs::file_type::not_found) continue;
    if (type == fs::file_type::regular && left.Holds(file.path)) continue;
    if (type == fs::file_type::none) {
      // The error is about the folder, so it is reported for one file only.
      findings.Add(
          code::kWrite, Place{MakeSource(path.string(), {})},
          "cannot write " + Quote(path.string()) + ": " + error.message(),
          "give another folder");
      return false;
    }
    findings.Add(
        code::kWrite, {}, "`" + Printable(path.string()) + "` exists already",
        "no file is overwritten: give another folder, or move the file "
        "away");
    good = false;
  }
  return good;
}

NewFileWriter::~NewFileWriter() {
  if (kept_) return;
  std::error_code error;
  for (auto at = made_.rbegin(); at != made_.rend(); ++at) {
    fs::remove(*at, error);
  }
}

bool NewFileWriter::Write(const std::vector<NewFile>& files,
                          Findings& findings) {
  const std::string index = (fs::path(folder_) / files.back().path).string();
  const Boundary boundary = Boundary::Of(index);
  for (const NewFile& file : files) {
    const std::string path = (fs::path(folder_) / file.path).string();
    if (boundary.Holds(path)) continue;
    findings.Add(code::kPath, Place{MakeSource(path, {})},
                 "a link on the way to `" + path +
                     "` leads out of the project's repository",
                 "remove the link, or give another folder");
    return false;
  }
  FileSet set;
  for (const NewFile& file : files) {
    const fs::path path = fs::path(folder_) / file.path;
    const auto write = [&](Sink& out) { out.Append(file.text); };
    if (!MakeFolder(path.parent_path(), made_, findings) ||
        !set.Add(path.string(), write, findings)) {
      return false;
    }
  }
  for (const NewFile& file : files) {
    made_.push_back(fs::path(folder_) / file.path);
  }
  return set.Publish(MarkOf(files), true, findings);
}

}  // namespace shardc::cli
