// Conversions by integer arithmetic from the definitions of the formats. Tests
// compare src/floats with them.
#ifndef SHARDC_TESTS_FLOATS_ORACLE_H_
#define SHARDC_TESTS_FLOATS_ORACLE_H_

#include <cstdint>

namespace shardc::oracle {

// Arguments and results are the bits of IEEE binary64, binary32, binary16 or of
// bfloat16.
uint32_t Float32FromFloat64(uint64_t bits);
uint16_t Float16FromFloat64(uint64_t bits);
uint16_t Bfloat16FromFloat64(uint64_t bits);
uint16_t Float16FromFloat32(uint32_t bits);
uint16_t Bfloat16FromFloat32(uint32_t bits);
uint32_t Float32FromFloat16(uint16_t bits);
uint32_t Float32FromBfloat16(uint16_t bits);

}  // namespace shardc::oracle

#endif  // SHARDC_TESTS_FLOATS_ORACLE_H_
