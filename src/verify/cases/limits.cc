// Checks that a request can be simulated with the memory and time of one host.
// Sizes are multiplied as doubles, which cannot overflow and are precise enough
// for limits. With --full, cases run at the sizes that the user gave, and not
// at reduced sizes. For example:
//
//   batch 4, 32 heads, 8,192 x 8,192 with --full: 8.6e9 logits, refused
#include "verify/cases/limits.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "source/wording.h"

namespace shardc::verify {
namespace {

// The limit on devices: each simulated device costs memory and time.
constexpr int64_t kMostDevices = 4096;

std::string CountOf(double count) {
  constexpr double kMost = 9e18;  // just below the largest int64_t
  if (count >= kMost) return "over 9e18";
  return CountText(static_cast<int64_t>(count));
}

}  // namespace

bool CheckSizes(const Sizes& sizes, Findings& findings) {
  const std::pair<std::string_view, int64_t> all[] = {
      {"batch", sizes.batch},        {"heads", sizes.heads},
      {"kv_heads", sizes.key_heads}, {"head_dim", sizes.head_dim},
      {"q_len", sizes.query_length}, {"kv_len", sizes.key_length}};
  for (const auto& [name, size] : all) {
    if (size >= 1) continue;
    findings.Add(code::kUsage, {},
                 std::string(name) + " is " + std::to_string(size) +
                     ", which leaves attention nothing",
                 "give it by --attention, or a model's config that has it");
    return false;
  }
  if (sizes.heads % sizes.key_heads != 0) {
    findings.Add(code::kUsage, {},
                 Counted(sizes.heads, "head") + " do not divide into " +
                     Counted(sizes.key_heads, "key head"));
    return false;
  }
  if (sizes.query_length > sizes.key_length) {
    findings.Add(code::kUsage, {},
                 "q_len " + std::to_string(sizes.query_length) +
                     " is longer than kv_len " +
                     std::to_string(sizes.key_length),
                 "queries are the last of their keys");
    return false;
  }
  return true;
}

bool CheckWork(const Request& request, const Mesh& mesh, Findings& findings) {
  if (mesh.devices > kMostDevices) {
    findings.Add(code::kUsage, {},
                 "the mesh has " + CountText(mesh.devices) + " devices, " +
                     CountText(kMostDevices) + " at most are simulated",
                 "verify a smaller mesh with the same axes: the legality of a "
                 "layout does not depend on how many devices there are");
    return false;
  }
  Sizes n = request.sizes;
  // Generation modes have one query in each batch row.
  if (std::all_of(request.modes.begin(), request.modes.end(), IsGeneration)) {
    n.query_length = 1;
  }
  // The number of logits of one case. The operation `vanilla` stores all logits
  // at the same time.
  const double logits =
      static_cast<double>(n.batch) * static_cast<double>(n.heads) *
      static_cast<double>(n.query_length) * static_cast<double>(n.key_length);
  if (request.full && logits > 4e9) {
    findings.Add(
        code::kUsage, {},
        "the full sizes have " + CountOf(logits) + " logits, too many to hold",
        "leave out --full, or give a shorter q_len or kv_len");
    return false;
  }
  const double numbers =
      static_cast<double>(n.batch) *
      (static_cast<double>(n.query_length) * static_cast<double>(n.heads) +
       static_cast<double>(n.key_length) * static_cast<double>(n.key_heads)) *
      static_cast<double>(std::max(n.head_dim, n.ValueDim()));
  if (request.full && numbers > 2e9) {
    findings.Add(code::kUsage, {},
                 "query, key and value of the full sizes have " +
                     CountOf(numbers) + " numbers, too many to hold",
                 "leave out --full, or give a smaller batch or head_dim");
    return false;
  }
  // A page is allocated in full, even if it holds few tokens.
  for (const auto& [name, record] : request.records) {
    const double held = static_cast<double>(record.page_size.value_or(0)) *
                        static_cast<double>(n.batch) *
                        static_cast<double>(n.key_heads) *
                        static_cast<double>(n.head_dim);
    if (!request.full || held <= 1e9) continue;
    findings.Add(code::kUsage, {},
                 "a page of " + CountText(*record.page_size) +
                     " tokens for each row has " + CountOf(held) +
                     " numbers, too many to hold",
                 "leave out --full, or give a smaller page_size");
    return false;
  }
  return true;
}

}  // namespace shardc::verify
