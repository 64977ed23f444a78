// The parts of a training step that only models with experts have: the rows
// that experts compute, the router and the permutation of rows, the all-to-alls
// that send tokens to their experts, and the time that the host takes to start
// the kernels of a layer.
//
// The figures are round numbers and were not fitted. The expected times of 196
// published runs on GPUs, with 9 models, have a median error of 9 %; for the
// families of runs that were kept apart the median is 12 %, and 90 % of the
// runs are within 32 %.
#ifndef SHARDC_COST_EXPERTS_H_
#define SHARDC_COST_EXPERTS_H_

#include <set>
#include <vector>

#include "cost/communication.h"
#include "cost/inputs.h"
#include "cost/rates.h"
#include "cost/settings.h"
#include "cost/time.h"

namespace shardc::cost {

// Returns the axes over which the experts of a layer are distributed. They are
// the axes that shard a dimension of experts and that the axis rule `expert`
// names, and the axis of a rule with `place`. Without rules, they are all axes
// that shard such a dimension.
AxisGroup ExpertAxes(const CostInputs& work, const ParamClass& param);

// Returns the number of layers that Megatron adds behind the last layer of a
// model with experts to predict further tokens (`num_nextn_predict_layers`).
// Returns 0 if the parameters of the step contain such layers, if the model has
// no experts, or if the configuration does not state it, and nullopt if it
// states no number from 0 to 8.
std::optional<int64_t> NextTokenLayers(const std::vector<ParamClass>& params,
                                       const std::optional<ModelConfig>& model);

class ExpertLayers {
 public:
  // `layers` is the number of all layers. The settings must have a profile.
  // Keeps a reference to the settings.
  ExpertLayers(const CostInputs& work, const Settings& settings,
               const Stack& stack, const std::vector<Matmul>& matmuls,
               double layers);

  // Returns whether any layer has experts. Otherwise all times are 0.
  bool Any() const { return layers_ > 0; }
  double Layers() const { return layers_; }
  // Returns whether the time of a transfer is a part of Dispatch().
  bool IsDispatch(const Transfer& one) const;

  // The seconds of the forward pass of one micro-batch in one layer.
  // OfMatmul() is the time of a matmul of routed experts. Routing() is the
  // time of the router, of the permutation of rows to their experts and back,
  // and of the activation function. Activation() is the part of the activation
  // function.
  double OfMatmul(const Matmul& one, const Rates& rates) const;
  double Routing(const Rates& rates) const;
  double Activation(const Rates& rates) const;
  // Returns the seconds of one all-to-all. A layer and micro-batch has four:
  // tokens are sent to experts and back, in both passes.
  double AllToAll(const Rates& rates) const;
  // Returns the fewest seconds in which the host starts the kernels of all
  // layers, for the forward and the backward pass of one micro-batch.
  double Host(const Rates& rates) const;
  // Returns the same for one layer with experts.
  double HostOfLayer(const Rates& rates) const;

 private:
  const Settings& settings_;
  const Dispatcher dispatcher_;
  const Network network_;
  // The numbers of layers with and without experts.
  double layers_ = 0, dense_layers_ = 0;
  double tokens_ = 0;   // tokens that the device routes
  double chosen_ = 1;   // experts that a token chooses
  double rows_ = 0;     // rows that the device's experts compute
  double width_ = 0;    // the hidden size
  double inner_ = 0;    // the width of an expert on the device
  double experts_ = 0;  // experts of a layer
  // The most hosts to which a token is sent; 0 if there is no limit.
  double most_hosts_ = 0;
  AxisGroup axes_;   // over which tokens are sent
  GroupSpan place_;  // of the devices over which tokens are sent
};

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
  double BusRate(const GroupSpan& place, const Rates& rates) const;
  double Hosts() const;
  double GroupLatency(const Rates& rates) const;
  // Returns whether a transfer gathers weights, or reduces their gradients,
  // layer by layer.
  bool OfWeights(const Transfer& one) const;
  bool OverLength(const Transfer& one) const;
  bool RepeatsCollectives() const;
  // Returns the profile's measured rates of a collective within a host; null if
  // the profile has none, or if the group spans hosts.
  static const Curve* CurveOf(Collective kind, const GroupSpan& place,
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

#endif  // SHARDC_COST_EXPERTS_H_
