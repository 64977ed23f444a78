// The time of a training step's collectives, grouped by the computation that
// can hide them.
#ifndef SHARDC_COST_EXPOSURE_H_
#define SHARDC_COST_EXPOSURE_H_

#include <set>

#include "cost/communication.h"
#include "cost/experts.h"
#include "cost/inputs.h"
#include "cost/rates.h"
#include "cost/settings.h"
#include "cost/stack.h"
#include "cost/time.h"

namespace shardc::cost {

// The seconds of collectives in the forward or the backward pass, summed over
// all layers and micro-batches.
struct PassMoves {
  // All-gathers of weights and, in the backward pass, reductions of their
  // gradients.
  double weights = 0;
  // Seconds of collectives of tensor-parallel activations.
  double tensor = 0;
  // Seconds of transfers of keys and values over the mesh axes that shard the
  // sequence.
  double ring = 0;
  // Seconds of collectives that exchange tokens with experts.
  double experts = 0;
};
struct Moves {
  PassMoves forward, backward;
  // The seconds of collectives that reduce gradients over the replicas of
  // parameters, and of collectives of the optimizer.
  double gradients = 0;
};

// Computes the times of the collectives of a step. Keeps references to the
// arguments of the constructor. The settings must have a profile.
class Exposure {
 public:
  Exposure(const CostInputs& work, const Settings& settings,
           const Communication& communication, const Stack& stack,
           double layers);

  // Leaves out the all-to-alls whose time is ExpertLayers::AllToAll().
  Moves At(const Rates& rates, const ExpertLayers& experts) const;
  // Returns the base-2 logarithm of the number of hosts. On a torus, 256
  // devices are treated as one host.
  double Doublings() const;

 private:
  double BusRate(const Place& place, const Rates& rates) const;
  double Hosts() const;
  double GroupLatency(const Rates& rates) const;
  // Returns whether a transfer gathers weights, or reduces their gradients,
  // layer by layer.
  bool OfWeights(const Transfer& one) const;
  bool OverLength(const Transfer& one) const;
  bool RepeatsCollectives() const;
  // Returns the profile's measured rates of a collective within a host; null if
  // the profile has none, or if the group spans hosts.
  static const Curve* CurveOf(Collective kind, const Place& place,
                              const Rates& rates);
  double Seconds(const Transfer& one, const Rates& rates) const;

  const CostInputs& work_;
  const Settings& settings_;
  const Communication& communication_;
  const Stack& stack_;
  const double layers_;
  const Network network_;
  std::set<AxisGroup> gathered_;  // the axes over which weights are gathered
};

}  // namespace shardc::cost

#endif  // SHARDC_COST_EXPOSURE_H_
