// Chooses which instructions of the processor the kernels use to multiply
// bfloat16 numbers.
#ifndef SHARDC_FLOATS_BF16_PRODUCTS_H_
#define SHARDC_FLOATS_BF16_PRODUCTS_H_

namespace shardc {

// The instructions that multiply bfloat16 numbers. kVectors is VDPBF16PS of
// AVX512_BF16, and kTiles is TDPBF16PS of AMX. With kNone, bfloat16 numbers are
// converted to float32 before they are multiplied.
enum class Bf16Products { kNone, kVectors, kTiles };

// Returns whether kernels can use these instructions. The processor must have
// the instruction for products, and AVX512_BF16 for rounding. For kTiles, the
// operating system must also permit the use of the tile registers. Returns true
// for kNone. The processor and the operating system are queried at the first
// call.
bool HasBf16Products(Bf16Products products);

// Returns the instructions that kernels use: those that UseBf16Products() has
// set, or else the fastest ones of this processor. Tiles are the fastest.
// On processors without tiles, bfloat16 vectors are faster than float32 vectors
// on AMD's processors, and slower on Intel's.
Bf16Products UsedBf16Products();
// Sets what UsedBf16Products() returns, for tests and measurements. The
// processor must have these instructions, and no kernel may be running.
void UseBf16Products(Bf16Products products);
// Makes UsedBf16Products() return the fastest instructions again.
void UseFastestBf16Products();

// Returns true if decoding should read the keys of the KV cache in one
// sequential stream without prefetch instructions. Returns false if two streams
// with prefetching are faster. The processor is queried at the first call. The
// results of decoding do not depend on this choice.
bool OneStreamIsFaster();

}  // namespace shardc

#endif  // SHARDC_FLOATS_BF16_PRODUCTS_H_
