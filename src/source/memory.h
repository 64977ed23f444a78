// The process's memory.
#ifndef SHARDC_SOURCE_MEMORY_H_
#define SHARDC_SOURCE_MEMORY_H_

namespace shardc {

// Keeps what is freed for what is taken next, up to 1 GiB a block: the system
// clears every page that it gives anew, which costs more than filling it. For a
// whole process, before it takes much, and only where the allocator can.
void KeepFreedMemory();

}  // namespace shardc

#endif  // SHARDC_SOURCE_MEMORY_H_
