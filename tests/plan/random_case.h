// Makes random meshes, axis rules, rules and shapes. A case is determined by
// its seed, which a failed check prints. SHARDC_SEED sets the first seed.
#ifndef SHARDC_TESTS_PLAN_RANDOM_CASE_H_
#define SHARDC_TESTS_PLAN_RANDOM_CASE_H_

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "model/manifest.h"
#include "model/mesh.h"
#include "model/rules.h"

namespace shardc {

uint64_t FirstSeed();

class RandomCase {
 public:
  explicit RandomCase(uint64_t seed) : random_(seed) {}

  int64_t Below(int64_t bound) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(bound));
  }
  bool Chance(int percent) { return Below(100) < percent; }
  template <class T>
  const T& Pick(const std::vector<T>& from) {
    return from[static_cast<size_t>(Below(static_cast<int64_t>(from.size())))];
  }

  // Returns a mesh with one to five axes of size 1, 2, 3, 4 or 8.
  Mesh RandomMesh();
  // Returns a shape of rank 0 to 4, with zeros, ones and primes.
  Shape RandomShape();
  // Returns a spec with groups of axes that the mesh may lack and that may be
  // repeated.
  Spec RandomSpec();
  // Returns axis rules, registrations, bundles and rules, all of which can be
  // resolved.
  RuleSet RandomRules(const Mesh& mesh);
  Manifest RandomManifest();

 private:
  AxisGroup RandomGroup(const std::vector<std::string>& axes, int most);
  SpecList RandomList(const std::vector<std::string>& names);

  std::mt19937_64 random_;
};

// Return the argument with another name for every mesh axis: in the mesh, in
// specs, and in axis rules, in which the parallelism axes are then set as well.
std::string Renamed(const std::string& axis);
Mesh Renamed(Mesh mesh);
Spec Renamed(Spec spec);
RuleSet Renamed(RuleSet rules, const Mesh& mesh);

}  // namespace shardc

#endif  // SHARDC_TESTS_PLAN_RANDOM_CASE_H_
