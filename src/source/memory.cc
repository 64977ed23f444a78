#include "source/memory.h"

#include <cstdlib>  // defines __GLIBC__

#ifdef __GLIBC__
#include <malloc.h>
#include <sys/mman.h>

#include <algorithm>
#endif

namespace shardc {

void KeepFreedMemory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, -1);
#endif
}

void PreferHugePages(int64_t bytes) {
#if defined(__GLIBC__) && defined(MADV_HUGEPAGE)
  constexpr uintptr_t kHugePage = uintptr_t{2} << 20;
  constexpr int64_t kLeast = 16 << 20;
  constexpr int64_t kMost = int64_t{1} << 29;  // KeepFreedMemory keeps 1 GiB
  if (bytes < kLeast) return;
  // The block grows the heap by its size. Freed, it is the part of the heap
  // from which the next blocks are taken. No page of it has been touched.
  void* const block = std::malloc(static_cast<size_t>(std::min(bytes, kMost)));
  if (block == nullptr) return;
  const auto at = reinterpret_cast<uintptr_t>(block);
  const uintptr_t begin = (at + kHugePage - 1) / kHugePage * kHugePage;
  const uintptr_t end =
      (at + malloc_usable_size(block)) / kHugePage * kHugePage;
  if (begin < end) {
    madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
  }
  std::free(block);
#else
  static_cast<void>(bytes);
#endif
}

void ReturnFreedMemory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

}  // namespace shardc
