// What is taken for granted of an operator, over all operators of the process.
#include "tape/op_info.h"

#include <iostream>
#include <set>

#include "support/oracle.h"

namespace encore::test {
namespace {

std::vector<std::unique_ptr<tape::OpInfo>> all_ops() {
  std::vector<std::unique_ptr<tape::OpInfo>> ops;
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    if (const auto handle = dispatcher.findSchema(name)) {
      ops.push_back(tape::OpInfo::of(*handle));
    }
  }
  return ops;
}

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

TEST(OpInfo, OnlyOutOverloadsAndFillersOfAtenAreTakenToOverwrite) {
  const std::set<std::string> fillers = {"copy_",      "fill_",    "zero_",      "bernoulli_",
                                         "normal_",    "uniform_", "random_",    "exponential_",
                                         "geometric_", "cauchy_",  "log_normal_"};
  int64_t overloads = 0;
  for (const auto& op : all_ops()) {
    if (!op->overwrites) {
      continue;
    }
    const auto& schema = op->handle.schema();
    ASSERT_EQ(schema.name().rfind("aten::", 0), 0U) << op->name;
    const bool filler = fillers.count(schema.name().substr(6)) > 0;
    // "out", "Tensor_out", "output", "grad_input", "values", ...: all keyword arguments at the end that are returned.
    for (const size_t written : op->writes) {
      EXPECT_TRUE(filler || schema.arguments()[written].is_out()) << op->name;
    }
    EXPECT_TRUE(filler || !op->returns_other || schema.returns().empty()) << op->name;
    EXPECT_FALSE(has(schema.name(), "empty") || has(schema.name(), "resize") || has(schema.name(), "aten::set"))
        << op->name;
    ++overloads;
  }
  EXPECT_GE(overloads, 400);
}

/// What ATen's ops draw is replayed from the generator's state; those that do not say so would go unnoticed.
TEST(OpInfo, EveryOpOfAtenThatDrawsSaysSo) {
  const std::set<std::string> none = {
      "aten::_dirichlet_grad",
      "aten::_cudnn_init_dropout_state",
      "aten::_philox_uniform",  // of 2.14: computed from a key that is an argument, not drawn from a generator
      "aten::_philox_uniform_",
  };
  int64_t drawing = 0;
  for (const auto& op : all_ops()) {
    const std::string& name = op->handle.schema().name();
    if (name.rfind("aten::", 0) != 0 || op->composite || has(name, "backward") || has(name, "grad")) {
      continue;
    }
    const bool sounds_random = has(name, "::rand") || has(name, "bernoulli") || has(name, "dropout") ||
                               has(name, "multinomial") || has(name, "poisson") || has(name, "::normal") ||
                               has(name, "uniform") || has(name, "exponential") || has(name, "geometric_") ||
                               has(name, "cauchy") || has(name, "log_normal") || has(name, "rrelu_with_noise") ||
                               has(name, "binomial") || has(name, "_standard_gamma") || has(name, "dirichlet");
    if (sounds_random && none.count(name) == 0) {
      EXPECT_TRUE(op->may_draw) << op->name;
      ++drawing;
    }
  }
  EXPECT_GE(drawing, 40);
}

TEST(OpInfo, NamesHaveTheSameHashInEveryProcess) {
  const auto handle = c10::Dispatcher::singleton().findSchemaOrThrow("aten::mul", "Tensor");
  EXPECT_EQ(tape::OpInfo::of(handle)->name_hash, 10939254189339863533U);
}

}  // namespace
}  // namespace encore::test
