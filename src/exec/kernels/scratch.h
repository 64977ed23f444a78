// Memory that a thread keeps between calls of the kernels. The kernels
// therefore do not allocate memory in every call.
#ifndef SHARDC_EXEC_KERNELS_SCRATCH_H_
#define SHARDC_EXEC_KERNELS_SCRATCH_H_

#include <cstddef>
#include <cstdint>
#include <memory>

namespace shardc::exec {

class Scratch {
 public:
  static constexpr size_t kAlign = 64;  // bytes of a cache line

  // Begins a new round of Take calls with `bytes` bytes in total, and
  // invalidates the results of earlier rounds. The memory grows if needed and
  // never shrinks.
  void Reset(size_t bytes) {
    if (size_ < bytes + kAlign) {
      size_ = bytes + kAlign;
      bytes_ = std::make_unique_for_overwrite<unsigned char[]>(size_);
    }
    const auto at = reinterpret_cast<uintptr_t>(bytes_.get());
    used_ = (kAlign - at % kAlign) % kAlign;
  }

  // Returns `count` aligned, uninitialised elements. The sum of Bytes(count) of
  // all calls since Reset must not exceed the size given to Reset.
  template <typename T>
  T* Take(size_t count) {
    T* const out = reinterpret_cast<T*>(bytes_.get() + used_);
    used_ += Bytes<T>(count);
    return out;
  }

  template <typename T>
  static constexpr size_t Bytes(size_t count) {
    return (count * sizeof(T) + kAlign - 1) / kAlign * kAlign;
  }

 private:
  std::unique_ptr<unsigned char[]> bytes_;
  size_t size_ = 0;
  size_t used_ = 0;
};

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_KERNELS_SCRATCH_H_
