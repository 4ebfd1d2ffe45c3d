// The fold of the further changes.
import { defineFold } from "../../components/fold.js";
import * as store from "../../store.js";

defineFold("changes_fold", {
  ...{ key: "open_fold", open: "sliders", closed: "" },
  title: store.getLabels("open_fold").sliders,
  content: "#hands-more",
});
