// The keys that each mapping of the file formats may have. The readers use
// these tables, and a test compares the JSON schemas with them.
#ifndef SHARDC_PARSE_KEYS_H_
#define SHARDC_PARSE_KEYS_H_

#include <span>

#include "yaml/read.h"

namespace shardc {

namespace keys {
extern const KeyTable kMesh;
extern const KeyTable kDevice;
extern const KeyTable kRules;
extern const KeyTable kRule;
extern const KeyTable kLike;
extern const KeyTable kPlace;
extern const KeyTable kRegistration;
extern const KeyTable kForcedAxis;
extern const KeyTable kBundle;
extern const KeyTable kActivation;
extern const KeyTable kPolicy;
extern const KeyTable kWeightDecay;
extern const KeyTable kStages;
extern const KeyTable kStacked;
extern const KeyTable kSchedule;
extern const KeyTable kModel;
extern const KeyTable kModelOptions;
extern const KeyTable kModelEncoder;
extern const KeyTable kModelRouter;
extern const KeyTable kModelRope;
extern const KeyTable kModelNorm;
extern const KeyTable kModelLoss;
extern const KeyTable kModelSlopes;
extern const KeyTable kProject;
extern const KeyTable kTarget;
extern const KeyTable kBudget;
extern const KeyTable kAudit;
extern const KeyTable kLint;
extern const KeyTable kOperations;
extern const KeyTable kSettings;
extern const KeyTable kRun;
}  // namespace keys

std::span<const KeyTable* const> AllKeyTables();

}  // namespace shardc

#endif  // SHARDC_PARSE_KEYS_H_
