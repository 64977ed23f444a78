// Whether this processor multiplies tiles of bfloat16 numbers (AMX).
#ifndef SHARDC_FLOATS_BF16_TILES_H_
#define SHARDC_FLOATS_BF16_TILES_H_

namespace shardc {

// Returns whether the processor has AMX-BF16 and AVX512_BF16, and the operating
// system gave this process the permission to use the tile registers. The
// processor and the operating system are queried at the first call.
bool HasBf16Tiles();

// Returns HasBf16Tiles() unless AllowBf16Tiles(false) was called.
bool UsesBf16Tiles();
// Sets whether UsesBf16Tiles() may return true, for tests and measurements.
// Tiles are allowed at first. Call it only while no kernel runs.
void AllowBf16Tiles(bool allowed);

}  // namespace shardc

#endif  // SHARDC_FLOATS_BF16_TILES_H_
