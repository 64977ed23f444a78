// Every lint, one file each. table.cc lists them by number.
#ifndef SHARDC_LINT_RULES_ALL_H_
#define SHARDC_LINT_RULES_ALL_H_

#include "lint/rules/lint.h"

namespace shardc {

extern const Lint kCatchAllReplicates;
extern const Lint kOtherNaming;
extern const Lint kCatchAllTakesLarge;
extern const Lint kUnmatchedParameter;
extern const Lint kDeadRule;
extern const Lint kShadowedRule;
extern const Lint kDuplicateRule;
extern const Lint kConflictingRules;
extern const Lint kCatchAllNotLast;
extern const Lint kUnanchoredPattern;
extern const Lint kUnescapedDot;
extern const Lint kSlowPattern;
extern const Lint kSeparatorMismatch;
extern const Lint kCaseMismatch;
extern const Lint kSiblingDiffers;
extern const Lint kUnusedDefinition;
extern const Lint kRedundantWildcard;
extern const Lint kAnchoredMissesStates;
extern const Lint kUnusedIgnore;
extern const Lint kPlanOutOfDate;
extern const Lint kMissingAxis;
extern const Lint kIndivisibleDimension;
extern const Lint kRepeatedAxis;
extern const Lint kSpecTooLong;
extern const Lint kAxisOfSizeOne;
extern const Lint kUnusedMeshAxis;
extern const Lint kLargeReplicated;
extern const Lint kTinySharded;
extern const Lint kScalarSpec;
extern const Lint kUnevenDevices;
extern const Lint kTiedEmbeddingDiffers;
extern const Lint kCompanionDiffers;
extern const Lint kGateUpDiffer;
extern const Lint kAttentionReshard;
extern const Lint kMlpReshard;
extern const Lint kExpertAxis;
extern const Lint kVocabularyPadding;
extern const Lint kHeadSplit;
extern const Lint kFusedParts;
extern const Lint kQuantisationBlock;
extern const Lint kChattyAxisAcrossHosts;
extern const Lint kUnevenHosts;
extern const Lint kTensorAxisOverSlices;
extern const Lint kCacheReshard;
extern const Lint kDecodeQuerySplit;
extern const Lint kDecodeNull;
extern const Lint kKvHeadsIndivisible;
extern const Lint kHeadGroupsStraddle;
extern const Lint kKvLengthIndivisible;
extern const Lint kParameterReshard;
extern const Lint kBatchIndivisible;
extern const Lint kHeadsIndivisible;
extern const Lint kMemoryOverBudget;
extern const Lint kMemoryTight;

}  // namespace shardc

#endif  // SHARDC_LINT_RULES_ALL_H_
