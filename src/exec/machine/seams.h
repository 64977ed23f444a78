// Where a run may be given something else than the ordinary: a decorator that
// watches, or one that does wrong on purpose. Each room declares the seams of
// its own programs, as structs of functions that by default do what is right;
// a machine carries those that its run replaces. Programs ask the machine and
// know of no other.
#ifndef SHARDC_EXEC_MACHINE_SEAMS_H_
#define SHARDC_EXEC_MACHINE_SEAMS_H_

#include <any>
#include <utility>
#include <vector>

namespace shardc::exec {

class Seams {
 public:
  // In the place of one of the same type.
  template <class Seam>
  void Set(Seam seam) {
    if (auto* const held = const_cast<Seam*>(Find<Seam>())) {
      *held = std::move(seam);
    } else {
      held_.emplace_back(std::move(seam));
    }
  }
  // As it was set, else the right one.
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
