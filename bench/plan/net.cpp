// The builder of joint graphs.
#include "net.h"

#include <algorithm>

namespace encore::plan::bench {
namespace {

constexpr int64_t kFloat = 4;

}  // namespace

Value Net::push(Forward forward) {
  steps_.push_back(std::move(forward));
  return static_cast<Value>(steps_.size()) - 1;
}

Value Net::input(int64_t elements) {
  return push({"input", elements, 0, 0, {}, {}, false, true, {}});
}

Value Net::linear(Value x, int64_t out_elements, double flops) {
  const double traffic = static_cast<double>((elements(x) + out_elements) * kFloat) / machine_.bytes;
  return push({"linear",
               out_elements,
               out_elements * kFloat,
               std::max(flops / machine_.flops, traffic),
               {x},
               {},
               true,
               false,
               {}});
}

Value Net::matmul(Value a, Value b, int64_t out_elements, double flops) {
  const double traffic = static_cast<double>((elements(a) + elements(b) + out_elements) * kFloat) / machine_.bytes;
  return push({"matmul",
               out_elements,
               out_elements * kFloat,
               std::max(flops / machine_.flops, traffic),
               {a, b},
               {a, b},
               false,
               false,
               {}});
}

Value Net::by_output(const std::string& op, Value x, double passes) {
  const double time = passes * static_cast<double>(elements(x) * kFloat) / machine_.bytes;
  const auto self = static_cast<Value>(steps_.size());
  return push({op, elements(x), elements(x) * kFloat, time, {x}, {self}, false, false, {}});
}

Value Net::by_input(const std::string& op, Value x, double passes) {
  const double time = passes * static_cast<double>(elements(x) * kFloat) / machine_.bytes;
  return push({op, elements(x), elements(x) * kFloat, time, {x}, {x}, false, false, {}});
}

Value Net::mul(Value a, Value b) {
  const double time = 3 * static_cast<double>(elements(a) * kFloat) / machine_.bytes;
  return push({"mul", elements(a), elements(a) * kFloat, time, {a, b}, {a, b}, false, false, {}});
}

Value Net::add(Value a, Value b) {
  const double time = 3 * static_cast<double>(elements(a) * kFloat) / machine_.bytes;
  return push({"add", elements(a), elements(a) * kFloat, time, {a, b}, {}, false, false, {}});
}

Value Net::dropout(Value x) {
  const auto count = static_cast<double>(elements(x));
  const Value mask = push({"mask", elements(x), elements(x), 10 * count / machine_.bytes, {}, {}, false, true, {}});
  return push({"dropout",
               elements(x),
               elements(x) * kFloat,
               (2 * kFloat + 1) * count / machine_.bytes,
               {x},
               {mask},
               false,
               false,
               {mask}});
}

Value Net::pool(Value x, int64_t out_elements) {
  const double time = static_cast<double>((elements(x) + out_elements) * kFloat) / machine_.bytes;
  const auto self = static_cast<Value>(steps_.size());
  return push({"pool", out_elements, out_elements * kFloat, time, {x}, {x, self}, false, false, {}});
}

Value Net::resize(const std::string& op, Value x, int64_t out_elements) {
  const double time = static_cast<double>((elements(x) + out_elements) * kFloat) / machine_.bytes;
  return push({op, out_elements, out_elements * kFloat, time, {x}, {}, false, false, {}});
}

Value Net::concat(const std::vector<Value>& parts) {
  int64_t count = 0;
  for (const Value part : parts) {
    count += elements(part);
  }
  const double time = 2 * static_cast<double>(count * kFloat) / machine_.bytes;
  return push({"concat", count, count * kFloat, time, parts, {}, false, false, {}});
}

Graph Net::finish(Value loss) {
  Graph graph;
  const auto add_step = [&](std::string op, double time, int64_t bytes, std::vector<int32_t> inputs) {
    graph.steps.push_back({std::move(op), time, bytes, 0, std::move(inputs), {}});
    return static_cast<int32_t>(graph.steps.size()) - 1;
  };
  for (const Forward& step : steps_) {
    std::vector<int32_t> inputs = step.inputs;
    inputs.insert(inputs.end(), step.other_reads.begin(), step.other_reads.end());
    add_step(name_ + "." + step.op, step.time, step.bytes, std::move(inputs));
  }
  const int32_t last = add_step("loss", 0, kFloat, {loss});
  std::vector<int32_t> gradient(steps_.size(), -1);
  const auto give = [&](Value to, int32_t from) {
    if (gradient[to] < 0) {
      gradient[to] = from;
      return;
    }
    const double time = 3 * static_cast<double>(steps_[to].bytes) / machine_.bytes;
    gradient[to] = add_step("sum.grad", time, steps_[to].bytes, {gradient[to], from});
  };
  give(loss, add_step("loss.grad", static_cast<double>(steps_[loss].bytes) / machine_.bytes, steps_[loss].bytes,
                      {loss, last}));
  for (auto at = static_cast<int32_t>(steps_.size()) - 1; at >= 0; --at) {
    const Forward& step = steps_[at];
    if (step.constant || gradient[at] < 0) {
      continue;
    }
    if (step.weights) {
      graph.outputs.push_back(add_step(step.op + ".wgrad", step.time, 0, {gradient[at], step.inputs[0]}));
    }
    for (const Value x : step.inputs) {
      if (steps_[x].constant) {
        continue;
      }
      std::vector<int32_t> inputs{gradient[at]};
      for (const Value read : step.reads) {
        // A product's gradient for one factor reads the other.
        if (step.inputs.size() == 1 || read != x) {
          inputs.push_back(read);
        }
      }
      const double share =
          step.op == "concat" ? static_cast<double>(elements(x)) / static_cast<double>(step.elements) : 1;
      give(x, add_step(step.op + ".grad", step.time * share, steps_[x].bytes, std::move(inputs)));
    }
  }
  return graph;
}

}  // namespace encore::plan::bench
