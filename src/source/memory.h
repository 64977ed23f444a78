// Settings of the process's memory allocator.
#ifndef SHARDC_SOURCE_MEMORY_H_
#define SHARDC_SOURCE_MEMORY_H_

namespace shardc {

// Makes the allocator keep freed blocks of up to 1 GiB for reuse instead of
// returning them to the system, which clears each page it hands out at a higher
// cost than filling it. Call it once, before large allocations. Has no effect
// with allocators other than glibc's.
void KeepFreedMemory();

// Returns the pages of freed blocks to the system, which KeepFreedMemory makes
// the allocator keep. Call it before work that needs most of a process's memory
// in blocks of other sizes than those freed before. The pages that are used
// again are cleared again, about 0.2 s a GiB. Has no effect with allocators
// other than glibc's.
void ReturnFreedMemory();

}  // namespace shardc

#endif  // SHARDC_SOURCE_MEMORY_H_
