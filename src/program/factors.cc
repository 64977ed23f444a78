// Two dimensions that an op ties become one by common refinement. Both are
// lists of factors, the outermost first. The outermost factors are compared:
// equal sizes are joined; otherwise the larger one is split, if the smaller one
// divides it, and the walk goes on. For example, a reshape ties [512] to
// [8, 64]:
//
//   512 against 8 64   512 splits into 8 and 64, and each is joined
//
// A matrix that holds several parts one after the other has a sum:
// slices [0:512], [512:640] and [640:768] of 768 make it (512|128|128). A sum
// is never a product by its sizes alone: the parts of (512|512) may be a key
// and a value that are not the same. Only a reshape that separates the parts
// shows that they have the same factors: (512|512|512) tied to [3, 8, 64]
// becomes the product of (1|1|1), 8 and 64, and the parts are joined with each
// other. So does (512|128|128) tied to [12, 64]: (8|2|2) and 64.
//
// Sizes only shrink from a factor to its own factors or parts, so that no
// factor contains itself, and the walk ends.
#include "program/ties.h"

#include <algorithm>
#include <utility>

namespace shardc::program {
namespace {

constexpr size_t kMostParts = 128;
// Parts of parts are joined down to this depth. Programs of users have a depth
// of two or three.
constexpr int kMostNestedSums = 64;

std::vector<int64_t> BoundsOf(const FactorTable& table,
                              std::span<const Factors> parts) {
  std::vector<int64_t> out;
  int64_t end = 0;
  for (const Factors& part : parts) out.push_back(end += table.SizeOf(part));
  return out;
}

}  // namespace

FactorId FactorTable::New(int64_t size) {
  const auto id = static_cast<FactorId>(nodes_.size());
  nodes_.push_back({.parent = id, .size = size, .product = {}, .parts = {}});
  return id;
}

Factors FactorTable::Fresh(int64_t size) {
  return size <= 1 ? Factors{} : Factors{New(size)};
}

FactorId FactorTable::Root(FactorId factor) const {
  while (nodes_[factor].parent != factor) {
    FactorId& parent = nodes_[factor].parent;
    parent = nodes_[parent].parent;
    factor = parent;
  }
  return factor;
}

void FactorTable::Expand(FactorId factor, Factors& out) const {
  const FactorId root = Root(factor);
  if (nodes_[root].product.empty()) {
    out.push_back(root);
    return;
  }
  for (const FactorId inner : nodes_[root].product) Expand(inner, out);
}

Factors FactorTable::Resolve(const Factors& dim) const {
  Factors out;
  for (const FactorId factor : dim) Expand(factor, out);
  return out;
}

int64_t FactorTable::SizeOf(const Factors& dim) const {
  int64_t out = 1;
  for (const FactorId factor : dim) out *= nodes_[Root(factor)].size;
  return out;
}

std::vector<Factors> FactorTable::PartsOf(FactorId factor) const {
  std::vector<Factors> out;
  // Parts that are still to be visited, the last one first.
  std::vector<Factors> left(nodes_[Root(factor)].parts.rbegin(),
                            nodes_[Root(factor)].parts.rend());
  while (!left.empty()) {
    Factors part = Resolve(left.back());
    left.pop_back();
    if (part.size() == 1 && IsSum(part[0])) {
      const auto& inner = nodes_[part[0]].parts;
      left.insert(left.end(), inner.rbegin(), inner.rend());
    } else {
      out.push_back(std::move(part));
    }
  }
  return out;
}

Factors FactorTable::SumOf(std::vector<Factors> parts) {
  if (parts.size() == 1) return parts[0];
  int64_t size = 0;
  for (const Factors& part : parts) size += SizeOf(part);
  const Factors out = Fresh(size);
  if (parts.size() <= kMostParts && !out.empty()) {
    nodes_[out[0]].parts = std::move(parts);
  }
  return out;
}

bool FactorTable::CanSplit(FactorId factor, int64_t outer) const {
  if (nodes_[factor].size % outer != 0) return false;
  const int64_t inner = nodes_[factor].size / outer;
  for (const Factors& part : PartsOf(factor)) {
    if (SizeOf(part) % inner != 0) return false;
  }
  return true;
}

// Makes a factor without a product the product of `outer` and the rest.
void FactorTable::SplitFactor(FactorId factor, int64_t outer) {
  const int64_t inner = nodes_[factor].size / outer;
  const std::vector<Factors> parts = PartsOf(factor);
  const FactorId minor = New(inner);
  std::vector<Factors> majors;
  for (const Factors& part : parts)
    majors.push_back(Fresh(SizeOf(part) / inner));
  const FactorId major = parts.empty() ? New(outer) : SumOf(majors)[0];
  nodes_[factor].product = {major, minor};
  nodes_[factor].parts.clear();
  for (size_t i = 0; i < parts.size(); ++i) {
    Factors part = majors[i];
    part.push_back(minor);
    Unify(parts[i], part);
  }
}

// Walks both lists as Unify() does, but only by sizes.
bool FactorTable::HaveRefinement(const Factors& a, const Factors& b) const {
  struct Left {
    int64_t size;
    FactorId factor;
    bool complete;  // false if the factor would have been split
  };
  const auto reversed = [&](const Factors& dim) {
    std::vector<Left> out;
    for (auto at = dim.rbegin(); at != dim.rend(); ++at) {
      out.push_back({nodes_[*at].size, *at, true});
    }
    return out;
  };
  std::vector<Left> x = reversed(a);
  std::vector<Left> y = reversed(b);
  while (!x.empty() && !y.empty()) {
    Left& p = x.back();
    Left& q = y.back();
    if (p.size != q.size) {
      const bool first = p.size > q.size;
      Left& larger = first ? p : q;
      const int64_t outer = first ? q.size : p.size;
      if (larger.size % outer != 0) return false;
      if (larger.complete && !CanSplit(larger.factor, outer)) return false;
      larger = {larger.size / outer, larger.factor, false};
      (first ? y : x).pop_back();
      continue;
    }
    if (p.complete && q.complete && p.factor != q.factor && IsSum(p.factor) &&
        IsSum(q.factor)) {
      const auto bounds = BoundsOf(*this, PartsOf(p.factor));
      const auto others = BoundsOf(*this, PartsOf(q.factor));
      const auto& fine = bounds.size() > others.size() ? bounds : others;
      const auto& coarse = bounds.size() > others.size() ? others : bounds;
      if (!std::ranges::includes(fine, coarse)) return false;
    }
    x.pop_back();
    y.pop_back();
  }
  return x.empty() && y.empty();
}

// Joins two sums, the boundaries of one of which include those of the other.
bool FactorTable::JoinSums(FactorId a, FactorId b) {
  std::vector<Factors> fine = PartsOf(a);
  std::vector<Factors> coarse = PartsOf(b);
  if (fine.size() < coarse.size()) {
    std::swap(fine, coarse);
    std::swap(a, b);
  }
  const auto bounds = BoundsOf(*this, fine);
  const auto others = BoundsOf(*this, coarse);
  if (!std::ranges::includes(bounds, others)) return false;
  nodes_[b].parent = a;
  nodes_[b].parts.clear();
  size_t next = 0;
  for (size_t i = 0; i < coarse.size(); ++i) {
    std::vector<Factors> range;
    while (next < fine.size() && bounds[next] <= others[i]) {
      range.push_back(fine[next++]);
    }
    Unify(coarse[i], SumOf(std::move(range)));
  }
  return true;
}

void FactorTable::Join(FactorId a, FactorId b) {
  if (IsSum(a) && IsSum(b)) {
    JoinSums(a, b);
  } else if (IsSum(a)) {
    nodes_[b].parent = a;
  } else {
    nodes_[a].parent = b;
  }
}

bool FactorTable::Unify(const Factors& a, const Factors& b) {
  const Factors first = Resolve(a);
  const Factors second = Resolve(b);
  if (first == second) return true;
  if (depth_ >= kMostNestedSums || !HaveRefinement(first, second)) return false;
  ++depth_;
  // The factors that are not unified yet, in reverse: the outermost one is the
  // last element, so that it can be removed.
  Factors x(first.rbegin(), first.rend());
  Factors y(second.rbegin(), second.rend());
  const auto expand = [&](Factors& list) {
    const Factors inner = Resolve({list.back()});
    list.pop_back();
    list.insert(list.end(), inner.rbegin(), inner.rend());
  };
  while (!x.empty() && !y.empty()) {
    // A factor may have been split or joined since it was put on its list.
    expand(x);
    expand(y);
    const FactorId p = x.back();
    const FactorId q = y.back();
    const int64_t sizes[] = {nodes_[p].size, nodes_[q].size};
    if (sizes[0] == sizes[1]) {
      if (p != q) Join(p, q);
      x.pop_back();
      y.pop_back();
    } else {
      const FactorId larger = sizes[0] > sizes[1] ? p : q;
      const int64_t outer = std::min(sizes[0], sizes[1]);
      if (!CanSplit(larger, outer)) break;
      SplitFactor(larger, outer);
    }
  }
  --depth_;
  return x.empty() && y.empty();
}

bool FactorTable::DivideAt(const Factors& dim,
                           std::span<const int64_t> bounds) {
  const Factors list = Resolve(dim);
  if (list.empty() || depth_ >= kMostNestedSums) return false;
  const FactorId lead = list[0];
  const int64_t size = nodes_[lead].size;
  const int64_t inner = SizeOf(list) / size;
  std::vector<int64_t> outer;
  for (const int64_t bound : bounds) {
    if (bound % inner != 0) return false;
    if (bound > 0 && bound / inner < size) outer.push_back(bound / inner);
  }
  std::ranges::sort(outer);
  outer.erase(std::unique(outer.begin(), outer.end()), outer.end());
  if (outer.empty()) return true;
  if (!IsSum(lead)) {
    if (outer.size() >= kMostParts) return false;
    outer.push_back(size);
    std::vector<Factors> parts;
    int64_t begin = 0;
    for (const int64_t end : outer) {
      parts.push_back(Fresh(end - begin));
      begin = end;
    }
    nodes_[lead].parts = std::move(parts);
    return true;
  }
  const std::vector<Factors> parts = PartsOf(lead);
  bool good = true;
  int64_t begin = 0;
  for (const Factors& part : parts) {
    const int64_t end = begin + SizeOf(part);
    std::vector<int64_t> inside;
    for (const int64_t bound : outer) {
      if (bound > begin && bound < end) inside.push_back(bound - begin);
    }
    if (!inside.empty()) {
      ++depth_;
      good = DivideAt(part, inside) && good;
      --depth_;
    }
    begin = end;
  }
  return good;
}

std::optional<Factors> FactorTable::Range(const Factors& dim, int64_t begin,
                                          int64_t end) {
  const Factors list = Resolve(dim);
  const int64_t size = SizeOf(list);
  if (begin == 0 && end == size) return list;
  if (list.empty() || depth_ >= kMostNestedSums || !IsSum(list[0]))
    return std::nullopt;
  const int64_t inner = size / nodes_[list[0]].size;
  if (begin % inner != 0 || end % inner != 0) return std::nullopt;
  std::vector<Factors> taken;
  int64_t at = 0;
  for (const Factors& part : PartsOf(list[0])) {
    const int64_t from = std::max(begin / inner, at);
    const int64_t to = std::min(end / inner, at + SizeOf(part));
    if (from < to) {
      ++depth_;
      auto range = Range(part, from - at, to - at);
      --depth_;
      if (!range) return std::nullopt;
      taken.push_back(std::move(*range));
    }
    at += SizeOf(part);
  }
  Factors out = SumOf(std::move(taken));
  out.insert(out.end(), list.begin() + 1, list.end());
  return out;
}

}  // namespace shardc::program
