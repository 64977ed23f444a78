// Chooses the processor's instructions that multiply bfloat16 numbers.
#ifndef SHARDC_FLOATS_BF16_PRODUCTS_H_
#define SHARDC_FLOATS_BF16_PRODUCTS_H_

namespace shardc {

// kVectors is the instruction VDPBF16PS of AVX512_BF16, and kTiles is TDPBF16PS
// of AMX. With kNone, bfloat16 numbers are converted to float32 first.
enum class Bf16Products { kNone, kVectors, kTiles };

// Returns whether the processor has the instruction, AVX512_BF16 for rounding,
// and, for tiles, the operating system's permission to use the tile registers.
// Returns true for kNone. The processor and the operating system are queried at
// the first call.
bool HasBf16Products(Bf16Products products);

// Returns the instructions that kernels use: those of the last call of
// UseBf16Products. Before the first call, returns the fastest ones of this
// processor: tiles, or else vectors on AMD's processors. On Intel's, vectors of
// bfloat16 are slower than float32.
Bf16Products UsedBf16Products();
// Sets what UsedBf16Products() returns, for tests and measurements; the
// processor must have it. Call it only while no kernel runs.
void UseBf16Products(Bf16Products products);
// Makes UsedBf16Products() return the fastest instructions again.
void UseFastestBf16Products();

}  // namespace shardc

#endif  // SHARDC_FLOATS_BF16_PRODUCTS_H_
