"""Rows of long-running tasks, whose actions change without the user."""

from vitdemo.page import modules

JS_CHANGE_ACTIONS = """async (url) => {
    const { createTaskRows } = await import(new URL(url, document.baseURI));
    const root = document.body.appendChild(document.createElement("div")), sent = [];
    const draw = createTaskRows(root, "", (action) => sent.push({ ...action }));
    const rows = (...actions) => [{ name: "vit", state: "", progress: "", done: 1, actions }];
    const deletion = ["discard", "Delete"];
    draw(rows(deletion));
    const button = root.querySelector("button");
    button.focus();
    draw(rows(["pause", "Pause"], ["stop", "Stop"], deletion));
    const isFocused = document.activeElement === button;
    button.click();
    const names = [...root.querySelectorAll("button")].map((each) => each.ariaLabel);
    root.querySelector("button").click();
    root.remove();
    return { isFocused, names, sent };
}"""


def test_a_button_keeps_its_action_if_the_actions_of_its_task_change(shared_page):
    found = shared_page.evaluate(JS_CHANGE_ACTIONS, f"./{modules.URL}/components/task_rows.js")
    assert found["isFocused"]
    assert found["names"] == ["Delete vit permanently", "Do not delete vit"]
    assert found["sent"] == [{"action": "discard", "name": "vit"}]
