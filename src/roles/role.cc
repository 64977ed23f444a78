#include "roles/role.h"

namespace shardc {

bool IsAttention(Role role) {
  switch (role) {
    case Role::kQuery:
    case Role::kKey:
    case Role::kValue:
    case Role::kFusedKeyValue:
    case Role::kFusedQkv:
    case Role::kOutput:
    case Role::kLatentUp:
      return true;
    default:
      return false;
  }
}

bool IsKeyOrValue(Role role) {
  return role == Role::kKey || role == Role::kValue ||
         role == Role::kFusedKeyValue;
}

bool IsMlp(Role role) {
  return role == Role::kGate || role == Role::kUp ||
         role == Role::kFusedGateUp || role == Role::kDown;
}

bool IsAdapter(Role role) {
  return role == Role::kAdapterDown || role == Role::kAdapterUp;
}

bool IsNorm(Role role) {
  return role == Role::kNorm || role == Role::kQueryNorm ||
         role == Role::kKeyNorm || role == Role::kLatentNorm;
}

bool IsHeadVector(Role role) {
  return role == Role::kSink || role == Role::kQueryNorm ||
         role == Role::kKeyNorm;
}

bool TakesWidth(Role role) {
  switch (role) {
    case Role::kQuery:
    case Role::kKey:
    case Role::kValue:
    case Role::kFusedQkv:
    case Role::kGate:
    case Role::kUp:
    case Role::kFusedGateUp:
    case Role::kHead:
    case Role::kRouter:
      return true;
    default:
      return false;
  }
}

bool GivesWidth(Role role) {
  return role == Role::kOutput || role == Role::kDown;
}

}  // namespace shardc
