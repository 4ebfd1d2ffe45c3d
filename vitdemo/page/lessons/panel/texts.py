"""Texts of the lesson panel and its questions. Texts between ** are bold."""

TEXTS = {
    # The panel
    "lesson": "Lesson",
    "loading": "Loading the lesson …",
    "unavailable": "This lesson cannot be opened",
    "step": "{step} of {steps}",
    "exit": "Exit lesson",
    "back": "Back",
    "show": "Show me",
    "next": "Next",
    "skip": "Skip",
    "finish": "Finish",
    "show_all": "Show all lessons",
    "reopened": "The view of this step was closed, and is being opened again.",
    # Tasks and questions
    "try_it": "Try it: ",
    "done": "✓ Done: ",
    "check": "Check",
    "compare": "Compare",
    "covered_step": "Part of the page is hidden until the next question.",
    "covered": "Part of the page is hidden until you answer.",
    "tolerance": "Answers within ±{tolerance} count as correct. Use a minus sign for negative "
    "numbers.",
    "no_choice": "Choose an answer first.",
    "no_text": "Write an answer first.",
    "no_number": "'{text}' is not a number. Enter a number, for example 2.5.",
    "answer": "The answer is **{number}**.",
    "sample": "**Sample answer:**",
    "correct": "**Correct.**",
    "wrong": "**Not quite.**",
    # The end of a lesson
    "end": "End of the lesson",
    "goal": "Goal of this lesson: ",
    "tasks_one": "{done} of {count} task done",
    "tasks_other": "{done} of {count} tasks done",
    "questions_one": "{right} of {count} question answered correctly at the first try",
    "questions_other": "{right} of {count} questions answered correctly at the first try",
    "next_lesson": "Next lesson",
    "following": "The next lesson is **{title}**.",
}
