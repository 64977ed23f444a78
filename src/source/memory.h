// Settings of the process's memory allocator.
#ifndef SHARDC_SOURCE_MEMORY_H_
#define SHARDC_SOURCE_MEMORY_H_

namespace shardc {

// Makes the allocator keep freed blocks of up to 1 GiB for reuse. If it
// returned them to the system, the system would clear the pages before the next
// use, which takes longer than filling them. Call it once, before large
// allocations. Has no effect with allocators other than glibc's.
void KeepFreedMemory();

// Returns to the system the pages of freed blocks, which the allocator keeps
// after KeepFreedMemory. Call it before work that needs most of the memory in
// blocks that do not fit into the freed blocks. The system clears a page before
// it is used again, which takes about 0.2 s per GiB. Has no effect with
// allocators other than glibc's.
void ReturnFreedMemory();

}  // namespace shardc

#endif  // SHARDC_SOURCE_MEMORY_H_
