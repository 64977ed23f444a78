// Merges the `stages:` sections of two files. Each value is copied together
// with its place, so that a finding about the value points to the right file.
#include "model/project.h"

namespace shardc {

void CompleteStages(StageDeclaration& nearer, const StageDeclaration& farther) {
  if (nearer.axis.empty()) {
    nearer.axis = farther.axis;
    nearer.axis_place = farther.axis_place;
  }
  // `layers` and `stacked` are two ways to identify the layers. If `nearer` has
  // one of them, neither is copied from `farther`.
  if (!nearer.layers && !nearer.stacked) {
    nearer.layers = farther.layers;
    nearer.stacked = farther.stacked;
  }
  if (!nearer.first) nearer.first = farther.first;
  if (!nearer.last) nearer.last = farther.last;
  if (!nearer.virtual_stages) {
    nearer.virtual_stages = farther.virtual_stages;
    nearer.virtual_place = farther.virtual_place;
  }
  if (!nearer.assign) {
    nearer.assign = farther.assign;
    nearer.listed = farther.listed;
    nearer.assign_place = farther.assign_place;
  }
  if (!nearer.copies) {
    nearer.copies = farther.copies;
    nearer.tied_place = farther.tied_place;
  }
  if (nearer.schedule.empty()) {
    nearer.schedule = farther.schedule;
    nearer.schedule_is_file = farther.schedule_is_file;
    nearer.schedule_place = farther.schedule_place;
  }
  if (!nearer.microbatches) nearer.microbatches = farther.microbatches;
}

}  // namespace shardc
