// The story that the recorder tells, by itself.
#include <thread>

#include <torch/torch.h>

#include <gtest/gtest.h>

#include "record/backward.h"
#include "record/keeping.h"

namespace encore::record {
namespace {

using Story = std::vector<std::string>;

/// Writes down what it is told.
class Diary final : public Subscriber {
 public:
  Story story;
  bool nodes = true;
  bool throws = false;

  void op_comes(Recorder&, tape::OpId next) override { story.push_back("comes " + std::to_string(next)); }
  void op_begins(const tape::PendingOp& op) override { story.push_back("begins " + op.info->name); }
  void overwritten(tape::ValueId, tape::ValueId, const tape::Geometry&, bool) override {
    story.emplace_back("overwritten");
  }
  void overwritten_unseen() override { story.emplace_back("unseen"); }
  void op_ended(tape::OpId op) override { story.push_back("ended " + std::to_string(op)); }
  void node_begins(const char* name) override {
    story.push_back(std::string("node ") + name);
    if (throws) {
      throw std::runtime_error("a subscriber's own");
    }
  }
  void node_ended() override { story.emplace_back("node ended"); }
  void leaf_comes(const at::Tensor&) override { story.emplace_back("leaf"); }
  void backward_begins() override { story.emplace_back("backward begins"); }
  void backward_ended() override { story.emplace_back("backward ended"); }
  bool wants_nodes() const override { return nodes; }

  bool has(const std::string& event) const { return std::find(story.begin(), story.end(), event) != story.end(); }
};

class Stream : public testing::Test {
 protected:
  Stream() { recorder->push(std::make_shared<Keeping>(0, diary)); }

  std::shared_ptr<Recorder> recorder = std::make_shared<Recorder>(std::make_shared<store::Residency>("story"));
  std::shared_ptr<Diary> diary = std::make_shared<Diary>();
};

TEST_F(Stream, TellsOfEachOpWhatComesWhatBeginsAndWhatEnded) {
  at::Tensor x = torch::ones({2});
  x.exp_();
  EXPECT_EQ(diary->story, (Story{"comes 0", "begins aten::ones", "ended 0", "comes 1", "begins aten::exp_",
                                 "overwritten", "ended 1"}));
}

TEST_F(Stream, TellsOfNodesInsideABackwardOfWhichNoOpIsSeen) {
  const at::Tensor x = torch::ones({2}, torch::requires_grad());
  const at::Tensor loss = x.exp().sum();
  diary->story.clear();
  {
    const BackwardRun run(BackwardRun::Ops::kUnobserved);
    loss.backward();
  }
  EXPECT_EQ(diary->story.front(), "backward begins");
  EXPECT_EQ(diary->story.back(), "backward ended");
  EXPECT_TRUE(diary->has("node SumBackward0"));
  EXPECT_TRUE(diary->has("node ExpBackward0"));
  EXPECT_EQ(std::count(diary->story.begin(), diary->story.end(), "node ended"),
            std::count_if(diary->story.begin(), diary->story.end(), [](const std::string& event) {
              return event.rfind("node ", 0) == 0 && event != "node ended";
            }));
  EXPECT_FALSE(diary->has("begins aten::mul"));
}

TEST_F(Stream, TellsOfNoNodesWhereNobodyWantsThem) {
  recorder->pop();
  diary->nodes = false;
  recorder->push(std::make_shared<Keeping>(0, diary));
  torch::ones({2}, torch::requires_grad()).exp().sum().backward();
  EXPECT_FALSE(diary->has("node ended"));
}

TEST_F(Stream, ANodeEndsThoughWhoIsToldOfItThrows) {
  const at::Tensor loss = torch::ones({2}, torch::requires_grad()).exp().sum();
  diary->throws = true;
  {
    const BackwardRun run(BackwardRun::Ops::kUnobserved);
    loss.backward();
  }
  EXPECT_TRUE(diary->has("node ended"));
  EXPECT_THROW(recorder->rethrow_failure(), std::runtime_error);
}

TEST_F(Stream, TellsOutermostFirstAndOnlyWhoIsOpen) {
  const auto inner = std::make_shared<Diary>();
  recorder->push(std::make_shared<Keeping>(0, inner));
  (void)torch::ones({2});
  EXPECT_EQ(inner->story, diary->story);
  recorder->pop();
  (void)torch::ones({2});
  EXPECT_EQ(2 * inner->story.size(), diary->story.size());
}

TEST_F(Stream, TellsNothingOfOtherThreads) {
  std::thread([] { torch::ones({2}, torch::requires_grad()).exp().sum().backward(); }).join();
  EXPECT_EQ(diary->story, Story());
}

TEST_F(Stream, ListenersHearOfTheWholeProcessUntilTheyStop) {
  const auto listener = std::make_shared<Diary>();
  listen(listener);
  std::thread([] { const BackwardRun run(BackwardRun::Ops::kRecorded); }).join();
  EXPECT_EQ(listener->story, (Story{"backward begins", "backward ended"}));
  stop_listening(listener);
  { const BackwardRun run(BackwardRun::Ops::kRecorded); }
  EXPECT_EQ(listener->story.size(), 2U);
}

}  // namespace
}  // namespace encore::record
