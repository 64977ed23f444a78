// Determines from file names whether a set of numbered files is complete. A
// series is a list of names that differ only in their number. It must have all
// numbers from 1 up to the count that the names state. The numbers start at 0
// if the series has a file 0 and no file whose number is the count.
// This file also refuses sets that are still being written, sets that change
// while they are read, single files of a set, and shards of split tensors.
//
//   model-00001-of-00003, model-00003-of-00003
//     ->  `model-00002-of-00003` is missing
//   model-00001-of-00002, model-00002-of-00003  ->  two counts
#include "importers/set_folder.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "source/file.h"
#include "source/input_file.h"
#include "source/list.h"
#include "source/utf8.h"
#include "source/wording.h"
#include "stored/write.h"

namespace shardc {
namespace {

constexpr size_t kNamesShown = 20;
constexpr size_t kMostDigits = 18;

int64_t NumberOf(std::string_view digits) {
  const size_t first = std::min(digits.find_first_not_of('0'), digits.size());
  digits.remove_prefix(first);
  int64_t number = 0;
  for (const char c : digits.substr(0, kMostDigits)) {
    number = number * 10 + (c - '0');
  }
  return digits.size() > kMostDigits ? 1'000'000'000'000'000'000 : number;
}

// Returns a list of at most kNamesShown names, such as "`a`, `b` and 3 more".
// `count` is the number of all names.
std::string NameList(const std::vector<std::string>& names, int64_t count) {
  std::string out = Join(First(names, kNamesShown), ", ", Quote);
  const auto shown = static_cast<int64_t>(std::min(names.size(), kNamesShown));
  if (count > shown) out += " and " + CountText(count - shown) + " more";
  return out;
}

std::string NameList(const std::vector<std::string>& names) {
  return NameList(names, static_cast<int64_t>(names.size()));
}

std::string_view BaseName(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

// The files whose names have the same prefix, suffix and count.
struct Series {
  NumberedName example;
  std::set<int64_t> numbers;
  std::string name;  // the file name of `example`
};

std::string MemberName(const NumberedName& like, int64_t number) {
  std::string digits = std::to_string(number);
  const size_t width = like.number_text.size();
  if (digits.size() < width) digits.insert(0, width - digits.size(), '0');
  return std::string(like.prefix) + digits + std::string(like.middle) +
         std::string(like.count_text) + std::string(like.suffix);
}

bool RefuseSeries(const Place& place, const Series& series,
                  Findings& findings) {
  const int64_t count = series.example.count;
  const bool from_zero =
      series.numbers.contains(0) && !series.numbers.contains(count);
  const int64_t first = from_zero ? 0 : 1;
  const int64_t last = first + count - 1;
  std::vector<std::string> outside;
  int64_t present = 0;
  for (const int64_t number : series.numbers) {
    if (number >= first && number <= last) {
      ++present;
    } else {
      outside.push_back(MemberName(series.example, number));
    }
  }
  if (!outside.empty()) {
    findings.Add(code::kMissing, place,
                 NameList(outside) + " has a number outside its count " +
                     CountText(count),
                 "download or write the checkpoint again");
    return true;
  }
  if (present == count) return false;
  std::vector<std::string> missing;
  for (int64_t i = first; i <= last && missing.size() < kNamesShown; ++i) {
    if (!series.numbers.contains(i)) {
      missing.push_back(MemberName(series.example, i));
    }
  }
  findings.Add(code::kMissing, place,
               "the set has " + CountText(present) + " of " + CountText(count) +
                   " files: " + NameList(missing, count - present) +
                   (count - present == 1 ? " is missing" : " are missing"),
               "complete the download, or run the command that wrote the set "
               "again");
  return true;
}

}  // namespace

std::optional<NumberedName> ParseNumberedName(std::string_view name) {
  for (size_t of = name.rfind("of"); of != std::string_view::npos && of > 0;
       of = name.rfind("of", of - 1)) {
    const size_t middle = of - 1;
    const char separator = name[middle];
    if ((separator != '-' && separator != '_') || of + 2 >= name.size() ||
        name[of + 2] != separator) {
      continue;
    }
    size_t begin = middle;
    while (begin > 0 && IsDigit(name[begin - 1])) --begin;
    const size_t count = of + 3;
    size_t end = count;
    while (end < name.size() && IsDigit(name[end])) ++end;
    if (begin == middle || end == count) continue;
    NumberedName out;
    out.prefix = name.substr(0, begin);
    out.number_text = name.substr(begin, middle - begin);
    out.middle = name.substr(middle, count - middle);
    out.count_text = name.substr(count, end - count);
    out.suffix = name.substr(end);
    out.number = NumberOf(out.number_text);
    out.count = NumberOf(out.count_text);
    return out;
  }
  return std::nullopt;
}

std::vector<std::string> FilesOfSeries(const NumberedName& name,
                                       const std::vector<std::string>& names) {
  std::map<int64_t, std::string> files;
  for (const std::string& other : names) {
    const auto parsed = ParseNumberedName(other);
    if (parsed && parsed->prefix == name.prefix &&
        parsed->suffix == name.suffix && parsed->count == name.count) {
      files.try_emplace(parsed->number, other);
    }
  }
  std::vector<std::string> out;
  for (auto& [number, file] : files) out.push_back(std::move(file));
  return out;
}

bool IsShardFileName(std::string_view name) {
  if (!name.ends_with(kTensorsSuffix)) return false;
  name.remove_suffix(kTensorsSuffix.size());
  for (const std::string_view series : {"device-", "process-", "shard-"}) {
    if (!name.starts_with(series)) continue;
    const std::string_view number = name.substr(series.size());
    return number.size() >= 5 &&
           std::all_of(number.begin(), number.end(), IsDigit);
  }
  return false;
}

std::string_view NameOfPart(std::string_view name) {
  constexpr std::string_view kEnd = ".part";
  if (!name.starts_with('.') || !name.ends_with(kEnd)) return {};
  name.remove_suffix(kEnd.size());
  name.remove_prefix(1);
  return name.ends_with(kTensorsSuffix) ? name : std::string_view();
}

bool RefuseUnfinishedRun(const std::string& folder,
                         const std::vector<std::string>& names,
                         Findings& findings) {
  std::vector<std::string> journals, parts;
  for (const std::string& name : names) {
    if (stored::ParseJournalName(name)) journals.push_back(name);
    const std::string_view part = NameOfPart(name);
    if (!part.empty()) parts.emplace_back(part);
  }
  if (journals.empty() && parts.empty()) return false;
  std::string message =
      "a run that writes files to `" + folder + "` has not finished: ";
  if (!journals.empty()) message += "its journal is " + NameList(journals);
  if (!journals.empty() && !parts.empty()) message += ", and ";
  if (!parts.empty()) {
    message += NameList(parts) + (parts.size() == 1 ? " is" : " are") +
               " not complete yet";
  }
  findings.Add(code::kMissing, Place{MakeSource(folder, {})}, message,
               "wait for the run, or run the same command again; to give the "
               "run up, remove its hidden files");
  return true;
}

bool RefuseGaps(const Place& place, const std::vector<std::string>& names,
                Findings& findings) {
  using Key = std::pair<std::string_view, std::string_view>;
  std::map<Key, std::map<int64_t, Series>> all;
  for (const std::string& name : names) {
    const auto parsed = ParseNumberedName(name);
    if (!parsed) continue;
    Series& series = all[{parsed->prefix, parsed->suffix}][parsed->count];
    if (series.numbers.empty()) {
      series.example = *parsed;
      series.name = name;
    }
    series.numbers.insert(parsed->number);
  }
  const size_t before = findings.errors();
  for (const auto& [key, counts] : all) {
    if (findings.Full()) break;
    if (counts.size() > 1) {
      std::vector<std::string> examples;
      for (const auto& [count, series] : counts) {
        examples.push_back(series.name);
      }
      findings.Add(code::kMissing, place,
                   "the names of the files state different counts: " +
                       NameList(examples),
                   "keep the files of one set only");
    }
    for (const auto& [count, series] : counts) {
      RefuseSeries(place, series, findings);
    }
  }
  return findings.errors() > before;
}

bool RefuseShards(const std::string& folder,
                  const std::vector<std::string>& names, Findings& findings) {
  const auto shard = std::find_if(names.begin(), names.end(), IsShardFileName);
  const bool index = IsAmong(kShardsName, names);
  const bool others =
      std::any_of(names.begin(), names.end(), [](const std::string& name) {
        return !name.starts_with('.') && name.ends_with(kTensorsSuffix);
      });
  if (shard == names.end() && (!index || others)) return false;
  const Place place{MakeSource(folder, {})};
  if (index) {
    findings.Add(code::kMissing, place,
                 "`" + folder +
                     "` holds the shards of a checkpoint that was split, not "
                     "full tensors",
                 "join them by `shardc checkpoint merge " + folder +
                     " -o model.safetensors`, and read that file");
  } else {
    findings.Add(code::kMissing, place,
                 "`" + folder + "` holds shards such as `" + *shard +
                     "`, and their index `" + std::string(kShardsName) +
                     "` is missing",
                 "run the command that wrote them again, with --finalize if "
                 "several processes did");
  }
  return true;
}

bool IsRankFileName(std::string_view name) {
  constexpr std::string_view kShard = "shard-";
  const auto numbered = ParseNumberedName(name);
  if (!numbered || !numbered->prefix.starts_with(kShard)) return false;
  const std::string_view rest = numbered->prefix.substr(kShard.size());
  const size_t digits =
      std::min(rest.find_first_not_of("0123456789"), rest.size());
  return digits > 0 && digits < rest.size() && rest[digits] == '-';
}

bool RefuseMember(const std::string& path, Findings& findings) {
  const std::string_view name = BaseName(path);
  if (!name.ends_with(kTensorsSuffix)) return false;
  const Place place{MakeSource(path, {})};
  if (const auto numbered = ParseNumberedName(name);
      numbered && numbered->count != 1) {
    findings.Add(code::kUsage, place,
                 "`" + std::string(name) + "` is one of the " +
                     CountText(numbered->count) +
                     " files of a checkpoint, not all of it",
                 "name the folder or the index, which have all files; to read "
                 "this file alone, give it on standard input");
    return true;
  }
  const std::string folder = path.substr(0, path.size() - name.size());
  if (IsRankFileName(name)) {
    findings.Add(code::kUsage, place,
                 "`" + std::string(name) +
                     "` holds the shards of one rank of "
                     "torch.distributed.checkpoint, not full tensors",
                 "name the folder `" + (folder.empty() ? "." : folder) +
                     "`, which has the files of all ranks; to read this file "
                     "alone, give it on standard input");
    return true;
  }
  std::error_code error;
  if (IsShardFileName(name) &&
      std::filesystem::exists(folder + std::string(kShardsName), error)) {
    findings.Add(code::kUsage, place,
                 "`" + std::string(name) +
                     "` holds the shards of one device, process or group, not "
                     "full tensors",
                 "join all files by `shardc checkpoint merge " +
                     (folder.empty() ? "." : folder) +
                     " -o model.safetensors`; to read this file alone, give "
                     "it on standard input");
    return true;
  }
  return false;
}

bool RefuseUnfinishedIndex(const JsonValue& root, Findings& findings) {
  const auto schema = root.Find("schema");
  if (!schema || schema->string() != kUnfinishedSchema) return false;
  findings.Add(code::kMissing, schema->place(),
               "a run was interrupted while it put a new set in place of an "
               "earlier one",
               "run the same command again: it completes the set");
  return true;
}

SetWatch::SetWatch(std::vector<std::string> paths) : paths_(std::move(paths)) {
  for (const std::string& path : paths_) {
    struct stat status = {};
    states_.emplace_back();
    if (::stat(path.c_str(), &status) != 0) continue;
    states_.back() = {static_cast<int64_t>(status.st_dev),
                      static_cast<int64_t>(status.st_ino), status.st_size,
                      ModifiedNs(status)};
  }
}

bool SetWatch::RefuseChanged(Findings& findings) const {
  const SetWatch now(paths_);
  for (size_t i = 0; i < paths_.size(); ++i) {
    if (now.states_[i] == states_[i]) continue;
    findings.Add(code::kUnreadable, Place{MakeSource(paths_[i], {})},
                 "`" + paths_[i] + "` has changed while its set was read",
                 "run again when nothing writes to the set");
    return true;
  }
  return false;
}

bool IsUnfinishedIndex(const std::string& path) {
  constexpr size_t kFirstBytes = 64;
  Findings findings;  // ignored: the file's reader reports the error
  const auto file = InputFile::Open(path, findings);
  const auto head = file ? file->Head(kFirstBytes, findings) : std::nullopt;
  return head && head->find(kUnfinishedSchema) != std::string::npos;
}

}  // namespace shardc
