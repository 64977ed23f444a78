// Declares Seams, which let tests replace steps of a run. A seam is one
// replaceable step: a test can replace it by a function that observes the step
// or injects a fault. Each folder declares the seams of its own programs as
// structs of functions. The default functions are the correct ones. A machine
// stores the seams that were replaced in its run, and programs get every seam
// from the machine.
#ifndef SHARDC_EXEC_MACHINE_SEAMS_H_
#define SHARDC_EXEC_MACHINE_SEAMS_H_

#include <any>
#include <utility>
#include <vector>

namespace shardc::exec {

class Seams {
 public:
  // Stores the seam, in place of an earlier seam of the same type.
  template <class Seam>
  void Set(Seam seam) {
    if (auto* const held = const_cast<Seam*>(Find<Seam>())) {
      *held = std::move(seam);
    } else {
      held_.emplace_back(std::move(seam));
    }
  }
  // Returns the seam that was set, or a seam with the default functions.
  template <class Seam>
  const Seam& Get() const {
    static const Seam kRight{};
    const Seam* const held = Find<Seam>();
    return held != nullptr ? *held : kRight;
  }

 private:
  template <class Seam>
  const Seam* Find() const {
    for (const std::any& any : held_) {
      if (const auto* held = std::any_cast<Seam>(&any)) return held;
    }
    return nullptr;
  }

  std::vector<std::any> held_;
};

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_MACHINE_SEAMS_H_
