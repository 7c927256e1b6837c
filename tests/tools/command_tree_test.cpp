// What completion scripts and the manual page are made from and turn it into; texts that shells and roff could take for
// their own language.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/cli.hpp"
#include "manual/command_tree.hpp"
#include "manual/completion.hpp"
#include "manual/manual_page.hpp"

namespace ferry::command {

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class CommandTree : public ::testing::Test {  // a program with one of everything
 protected:
  CommandTree() {
    auto* const outer = program_.add_subcommand("bench", "Measures");
    auto* const inner = outer->add_subcommand("link", "The link: 'both' ways [slow]");
    inner->footer("Takes a while.\n\nExamples:\n  ferry bench link --size 3   # quick\n  $ ferry bench link");
    inner->add_option("--kind", text_, "Which")->check(CLI::IsMember({"pinned", "pageable"}));
    inner->add_option("-o,--output", text_, ".Where\\ it goes")->type_name("FILE")->group("Output");
    inner->add_option("--size", number_, "How 'large'")->type_name("N")->capture_default_str();
    inner->add_option("--policy", text_, "As FERRY_POLICY")->type_name("POLICY");
    inner->add_option("--secret", text_, "For nobody")->group("");
    inner->add_flag("--all", flag_, "Everything");
    inner->add_option("runs", texts_, "Files of runs")->type_name("FILE")->required();
  }

  option_entry const& option(std::string const& name) {
    tree_ = tree_of(program_);
    for (auto const& one : tree_.commands.at(0).commands.at(0).options) {
      for (auto const& called : one.names) {
        if (called == name) return one;
      }
    }
    throw std::out_of_range(name);
  }

  CLI::App program_{"A program", "ferry"};
  std::string text_;
  std::vector<std::string> texts_;
  int number_ = 7;
  bool flag_ = false;
  command_entry tree_;
};

TEST_F(CommandTree, KnowsWhatEachOptionTakes) {
  EXPECT_EQ(option("--kind").kind, value_kind::words);
  EXPECT_THAT(option("--kind").words, ElementsAre("pinned", "pageable"));
  EXPECT_EQ(option("--output").kind, value_kind::file);
  EXPECT_THAT(option("--output").names, ElementsAre("-o", "--output"));
  EXPECT_EQ(option("--size").kind, value_kind::text);
  EXPECT_EQ(option("--size").initial, "7");
  EXPECT_EQ(option("--all").kind, value_kind::none);
  EXPECT_TRUE(option("runs").positional);
  EXPECT_TRUE(option("runs").several);
  EXPECT_EQ(option("runs").kind, value_kind::file);
  EXPECT_THROW((void)option("--secret"), std::out_of_range);
}

TEST_F(CommandTree, TakesTheWordsOfASettingFromItsTable) {
  EXPECT_THAT(option("--policy").words,
              ElementsAre("auto", "keep", "recompute", "offload", "selective", "every=N", "sqrt", "plan=FILE"));
}

TEST(CommandTreeWords, GoOnAfterAnEqualsSignOnlyForPlaceholders) {
  EXPECT_EQ(typed_part("every=N"), "every=");
  EXPECT_EQ(typed_part("cuda:N"), "cuda:");
  EXPECT_EQ(typed_part("link=2"), "link=2");
  EXPECT_EQ(typed_part("keep"), "keep");
}

TEST_F(CommandTree, FindsTheCallsInAFooter) {
  tree_ = tree_of(program_);
  auto const parts = parts_of(tree_.commands.at(0).commands.at(0).footer);
  EXPECT_THAT(parts.examples, ElementsAre("ferry bench link --size 3   # quick", "ferry bench link"));
  EXPECT_THAT(parts.notes, ElementsAre("Takes a while."));
}

TEST_F(CommandTree, QuotesForShells) {
  auto const tree = tree_of(program_);
  auto const bash = bash_completion(tree);
  EXPECT_THAT(bash, HasSubstr("'ferry bench link --kind') kind=words values='pinned pageable'"));
  EXPECT_THAT(bash, HasSubstr("'ferry bench link') kind=files"));
  EXPECT_THAT(bash, HasSubstr("'ferry bench') commands='link'"));
  auto const zsh = zsh_completion(tree);
  EXPECT_THAT(zsh, HasSubstr(R"('link:The link: '\''both'\'' ways [slow]')"));
  EXPECT_THAT(zsh, HasSubstr(R"('(--size)--size=[How '\''large'\'']:N: ')"));
  EXPECT_THAT(zsh, HasSubstr(R"('*:FILE:_files')"));
  EXPECT_THAT(zsh, HasSubstr("_ferry_bench_link()"));
  EXPECT_THAT(zsh, Not(HasSubstr("secret")));
}

TEST_F(CommandTree, LeavesOutWordsThatAShellWouldExpand) {
  EXPECT_TRUE(is_plain("plan=FILE"));
  for (auto const* const word : {"", "two words", "$(id)", "*", "a;b", "`id`"}) EXPECT_FALSE(is_plain(word)) << word;
}

TEST_F(CommandTree, EscapesForRoff) {
  auto const page = manual_page(tree_of(program_), "1.2", {{"FERRY_X", "1", "2", ".accepted", "'meaning", "", "", ""}});
  EXPECT_THAT(page, HasSubstr(".TP\n\\fB\\-o\\fR, \\fB\\-\\-output\\fR \\fIFILE\\fR\n\\&.Where\\e it goes\n"));
  EXPECT_THAT(page, HasSubstr("\n\\fBferry bench link\\fR [\\fIOPTION\\fR]... \\fIruns\\fR...\n"));
  EXPECT_THAT(page, HasSubstr("\\fBFERRY_X\\fR [2]\n\\&\\(aqmeaning; accepts \\&.accepted\n"));
  EXPECT_THAT(page, HasSubstr(".nf\nferry bench link \\-\\-size 3   # quick\n.fi\n"));
  EXPECT_EQ(roff_text("a\n.b"), "a\n\\&.b");
}

}  // namespace

}  // namespace ferry::command
