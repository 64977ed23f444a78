// Gives the tokens of a step to its experts.
#ifndef SHARDC_EMIT_STEP_PROGRAMS_EXPERTS_H_
#define SHARDC_EMIT_STEP_PROGRAMS_EXPERTS_H_

#include <map>
#include <optional>

#include "emit/step_programs/step_values.h"
#include "model/step_graph.h"

namespace shardc::program {

// Return the results of the ops kTopK, kTopGroups and kSlots.
ValueId BestExperts(StepValues& values, const step::Op& op);
ValueId BestGroups(StepValues& values, const step::Op& op);
ValueId SlotMatrix(StepValues& values, const step::Op& op);

class ExpertQueues {
 public:
  // Keeps a reference to `values`.
  explicit ExpertQueues(StepValues& values)
      : values_(values), graph_(values.graph()), write_(values.write()) {}

  // Translates an op that reads or writes the places of queues, or leaves it
  // for later. Returns false if it is another op.
  bool Translate(const step::Op& op);
  // Returns the op of a value that was left for later, because no other op may
  // need it; null if there is none.
  const step::Op* LaterOp(GraphValue value) const;

 private:
  // A matrix with a one, or with the weight of the expert, where a token has a
  // place in a queue.
  struct Places {
    GraphValue slots = step::kNoValue;  // the result of kSlots
    std::optional<GraphValue> weights;
  };
  struct Queue {
    ValueId token = 0;   // [b, e, c]: the token of a place, or their number
    ValueId placed = 0;  // [b, t, e]: whether a token has a place
    Labels labels;       // those of `token`
  };

  const Places* PlacesOf(GraphValue value) const;
  const Queue& QueueOf(GraphValue slots);
  bool Product(const step::Op& op);
  void Later(const step::Op& op) { later_[op.out] = &op; }
  ValueId Weights(const Places& places, const Queue& queue);
  ValueId Weighted(ValueId rows, const Labels& labels, const Places& places,
                   const Queue& queue);
  ValueId Sent(const Places& places, GraphValue tokens, const Labels& out);
  ValueId Returned(const Places& places, GraphValue rows, const Labels& out);
  ValueId OfWeights(const Places& places, const step::Op& products,
                    const Labels& out);

  StepValues& values_;
  const step::Graph& graph_;
  ProgramWriter& write_;
  std::map<GraphValue, const step::Op*> later_;
  std::map<GraphValue, Places> places_;
  std::map<GraphValue, Queue> queues_;
};

}  // namespace shardc::program

#endif  // SHARDC_EMIT_STEP_PROGRAMS_EXPERTS_H_
