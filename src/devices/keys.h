// Tables of the keys that each mapping of a device profile may have.
#ifndef SHARDC_DEVICES_KEYS_H_
#define SHARDC_DEVICES_KEYS_H_

#include "yaml/key_table.h"

namespace shardc::keys {

extern const KeyTable kProfile;
extern const KeyTable kPeaks;
extern const KeyTable kProfileMemory;
extern const KeyTable kEfficiency;
extern const KeyTable kMatmul;
extern const KeyTable kAttention;
extern const KeyTable kLinks;
extern const KeyTable kRateCurves;
extern const KeyTable kLink;
extern const KeyTable kChips;
extern const KeyTable kSources;

}  // namespace shardc::keys

#endif  // SHARDC_DEVICES_KEYS_H_
