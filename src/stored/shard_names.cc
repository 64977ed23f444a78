// Detects missing files of DCP's safetensors writer from the names of the other
// files. A model is saved as COUNT numbered files. A rank that holds a part of
// file NUMBER writes this part to
// `shard-RANK-model-NUMBER-of-COUNT.safetensors`. Ranks are counted from 1. At
// least one rank holds a part of each numbered file. Only the last ranks may
// have nothing to save. So these files are missing:
//
//   shard-00001-model-00001-of-00001, shard-00003-model-00001-of-00001
//     ->  the file of rank 2 is missing
//   shard-00001-model-00001-of-00002, shard-00002-model-00001-of-00002
//     ->  no rank has a part of `model-00002-of-00002`
#include "stored/shard_names.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "source/wording.h"

namespace shardc::stored {
namespace {

constexpr std::string_view kShardEnding = ".safetensors";
constexpr std::string_view kCountMark = "-of-";
constexpr std::string_view kShard = "shard-";
constexpr size_t kMostDigits = 9;
constexpr int64_t kMostShown = 8;

// Returns the number that the digits represent. Returns nullopt for any other
// text, and for more than kMostDigits digits.
std::optional<int64_t> Number(std::string_view digits) {
  int64_t out = 0;
  const char* end = digits.data() + digits.size();
  if (digits.empty() || digits.size() > kMostDigits || digits[0] == '-') {
    return std::nullopt;
  }
  const auto [rest, error] = std::from_chars(digits.data(), end, out);
  if (error != std::errc() || rest != end) return std::nullopt;
  return out;
}

// Returns the number as a text of at least five digits, such as "00012".
std::string FiveDigits(int64_t number) {
  constexpr size_t kWidth = 5;
  std::string out = std::to_string(number);
  if (out.size() < kWidth) out.insert(0, kWidth - out.size(), '0');
  return out;
}

// The numbers from 1 to `last` that are not in `present`. `count` is how many
// there are, and `first` has the first few of them.
struct Absent {
  int64_t count = 0;
  std::vector<int64_t> first;
};
Absent AbsentOf(const std::set<int64_t>& present, int64_t last) {
  Absent out;
  out.count = last - static_cast<int64_t>(present.size());
  for (int64_t i = 1; i <= last; ++i) {
    if (static_cast<int64_t>(out.first.size()) == kMostShown) break;
    if (!present.contains(i)) out.first.push_back(i);
  }
  return out;
}

// Returns a text such as "`shard-00002-model-*` and 3 more are missing".
std::string ListOf(const Absent& absent, const std::string& before,
                   const std::string& after) {
  std::string out;
  for (const int64_t number : absent.first) {
    out +=
        (out.empty() ? "`" : ", `") + before + FiveDigits(number) + after + "`";
  }
  const int64_t more = absent.count - static_cast<int64_t>(absent.first.size());
  if (more > 0) out += " and " + CountText(more) + " more";
  return out + (absent.count == 1 ? " is missing" : " are missing");
}

// The ranks, numbers and counts in the names of files with the same prefix.
struct Series {
  std::set<int64_t> ranks;
  std::set<int64_t> numbers;
  std::set<int64_t> counts;
  bool has_rank = false;
  bool outside = false;  // a number or a rank is out of range
};

bool Refuse(const Folder& folder, std::string message, std::string help,
            Findings& findings) {
  findings.Add(code::kMissing, {MakeSource(folder.path, {})},
               std::move(message), std::move(help));
  return true;
}

bool RefuseSeries(const Folder& folder, const std::string& prefix,
                  const Series& series, Findings& findings) {
  const int64_t count = *series.counts.begin();
  if (series.counts.size() > 1 || series.outside) {
    return Refuse(
        folder,
        series.outside
            ? "a file `" + prefix + "*` has a number outside its count"
            : "some files `" + prefix + "*` are of " + std::to_string(count) +
                  " and others of " + std::to_string(*series.counts.rbegin()),
        "move the files of another save to a folder of their own", findings);
  }
  bool refused = false;
  const int64_t ranks = series.has_rank ? *series.ranks.rbegin() : 0;
  if (static_cast<int64_t>(series.ranks.size()) < ranks) {
    refused =
        Refuse(folder,
               "files of rank " + std::to_string(ranks) +
                   " are present, and those of a rank before it are not: " +
                   ListOf(AbsentOf(series.ranks, ranks), std::string(kShard),
                          "-" + prefix + "*"),
               "copy the files of all ranks to this folder", findings);
  }
  if (static_cast<int64_t>(series.numbers.size()) < count) {
    refused = Refuse(
        folder,
        "the model has " + CountText(count) + " files, and no rank's part of " +
            std::to_string(count -
                           static_cast<int64_t>(series.numbers.size())) +
            " of them is present: " +
            ListOf(AbsentOf(series.numbers, count), prefix,
                   std::string(kCountMark) + FiveDigits(count) +
                       std::string(kShardEnding)),
        "copy the files of all ranks to this folder", findings);
  }
  return refused;
}

}  // namespace

std::optional<ShardName> ParseShardName(std::string_view name) {
  if (!name.ends_with(kShardEnding)) return std::nullopt;
  name.remove_suffix(kShardEnding.size());
  ShardName out;
  if (name.starts_with(kShard)) {
    const std::string_view rest = name.substr(kShard.size());
    const size_t dash = rest.find('-');
    const auto rank = Number(rest.substr(0, dash));
    if (rank && dash != std::string_view::npos) {
      out.rank = rank;
      name = rest.substr(dash + 1);
    }
  }
  const size_t of = name.rfind(kCountMark);
  if (of == std::string_view::npos) return std::nullopt;
  const auto count = Number(name.substr(of + kCountMark.size()));
  const size_t dash = name.substr(0, of).rfind('-');
  const size_t begin = dash == std::string_view::npos ? 0 : dash + 1;
  const auto number = Number(name.substr(begin, of - begin));
  if (!count || !number) return std::nullopt;
  out.prefix = name.substr(0, begin);
  out.number = *number;
  out.count = *count;
  return out;
}

bool RefuseMissingShards(const Folder& folder, Findings& findings) {
  std::map<std::string, Series> all;
  for (const std::string& name : folder.names) {
    const auto parsed = ParseShardName(name);
    if (!parsed) continue;
    Series& series = all[std::string(parsed->prefix)];
    series.counts.insert(parsed->count);
    series.numbers.insert(parsed->number);
    series.outside = series.outside || parsed->number < 1 ||
                     parsed->number > parsed->count ||
                     (parsed->rank && *parsed->rank < 1);
    if (parsed->rank) {
      series.has_rank = true;
      series.ranks.insert(*parsed->rank);
    }
  }
  bool refused = false;
  for (const auto& [prefix, series] : all) {
    if (RefuseSeries(folder, prefix, series, findings)) refused = true;
  }
  return refused;
}

bool HasFirstRankAlone(const Folder& folder) {
  bool first = false;
  for (const std::string& name : folder.names) {
    if (!name.ends_with(kShardEnding)) continue;
    const auto parsed = ParseShardName(name);
    if (!parsed || parsed->rank != 1) return false;
    first = true;
  }
  return first;
}

}  // namespace shardc::stored
