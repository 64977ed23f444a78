// The memory of the process: settings of its allocator, what is free, and what
// is reported when none is left.
#ifndef SHARDC_SOURCE_MEMORY_H_
#define SHARDC_SOURCE_MEMORY_H_

#include <cstdint>
#include <string_view>

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

// Returns the bytes of memory that the process can still allocate: what Linux
// estimates in /proc/meminfo, at most the limits of the process's address space
// and of its container. Returns INT64_MAX on systems without this estimate.
int64_t FreeMemory();

// Notes that the file at `path` is being read. If memory runs out, the message
// names the file that was noted last.
void NoteFileRead(std::string_view path);

// Writes "error: out of memory", with the file that was noted last and a help,
// to standard error. Allocates nothing.
void ReportNoMemory();

}  // namespace shardc

#endif  // SHARDC_SOURCE_MEMORY_H_
